// The elements of a Fortran-ordered tensor in C order, moved when they are read.
#pragma once

#include "narrow/tensor/tensor.hpp"

namespace narrow {

// The tensor itself where its order is already that of C. Bytes that are not mapped are copied first (large ones to a
// temporary file without a name), because the order of Fortran jumps back and forth in them.
Tensor row_major(const Tensor& tensor);

// The indices of a flat index in C order.
std::vector<std::uint64_t> indices_of(std::uint64_t flat, std::span<const std::uint64_t> shape);

}  // namespace narrow
