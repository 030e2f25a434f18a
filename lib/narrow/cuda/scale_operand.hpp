// Operands of products in block formats, on the device: the numbers that quantise() of scale/ gives, in one pass.
#pragma once

#include <cstddef>
#include <cstdint>

#include "narrow/cuda/arrays.hpp"
#include "narrow/scale/block_format.hpp"

namespace narrow {

// out: elements times the scales of their blocks (whole tensors: the elements), as floats or as the words of BF16,
// which must hold them. `over_rows`: blocks run down the rows of the matrix. amax_and_decode: two floats on the device;
// the second becomes what a product is multiplied by afterwards.
void scale_operand_on_device(const float* in, float* out, std::size_t rows, std::size_t cols, const BlockFormat& format,
                             bool over_rows, float* amax_and_decode, GpuStream stream);
void scale_operand_on_device(const float* in, std::uint16_t* out, std::size_t rows, std::size_t cols,
                             const BlockFormat& format, bool over_rows, float* amax_and_decode, GpuStream stream);

}  // namespace narrow
