// A product as the flags of `narrow gemm` describe it, for the command and for Python.
#pragma once

#include "products/product_options.hpp"

namespace app {

struct GemmFlags {
  ProductOptions product;
  std::optional<std::string> output;  // D's format
  bool round = false;                 // A and B to the model's operands
};

// What was multiplied, and D. Neither copied nor moved: in points into itself.
struct Multiplied {
  narrow::DotModel model;
  narrow::Plan plan;
  ProductInputs in;
  LoadedMatrix d;
};
void multiply(const GemmFlags& flags, Multiplied& result);  // throws narrow::Error

}  // namespace app
