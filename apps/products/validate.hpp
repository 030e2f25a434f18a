// A search for what made a product, as the flags of `narrow validate` describe it, for the command and for Python.
#pragma once

#include "cli/json_value.hpp"
#include "products/product_options.hpp"

namespace app {

struct ValidateFlags {
  ProductOptions product;
  MatrixFlags d{"--d", {}, {}, false};
  std::optional<std::string> vector, gpu, test;
  bool verbose = false;
};

// The answer, for machines and for people.
struct Validated {
  bool exact = false;
  Json json;
  std::string text;
};
Validated validate_product(const ValidateFlags& flags);  // throws narrow::Error

}  // namespace app
