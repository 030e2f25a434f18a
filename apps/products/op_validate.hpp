// Which variant of an operation gave this result, as the flags of `narrow validate --op` ask, for the command and for
// Python.
#pragma once

#include "products/op_request.hpp"
#include "products/validate.hpp"

namespace app {

struct OperationQuestion {
  OperationFlags operation;
  MatrixFlags d{"--d"};
  std::optional<std::string> gpu, vector, test;  // of linear, as of a product
  bool verbose = false;
};
Validated validate_operation(const OperationQuestion& question);  // throws narrow::Error

}  // namespace app
