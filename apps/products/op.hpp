// An operation computed as the flags of `narrow op` describe it, for the command and for Python.
#pragma once

#include "products/op_request.hpp"

namespace app {

struct Operated {
  std::string name, variant, kernel, what;
  narrow::Format format;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint32_t> codes;
};
// By the variant that the flags name, else by the first that is a kernel. Throws narrow::Error.
Operated operate(const OperationFlags& flags);

}  // namespace app
