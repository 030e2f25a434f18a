// Operands of products in block formats, on the device: the numbers that quantise() of scale/ gives, in one pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "narrow/cuda/arrays.hpp"
#include "narrow/scale/block_format.hpp"

namespace narrow {

// In which words numbers lie.
enum class ProductWords : std::uint8_t { fp32, fp16, bf16 };

// out: elements times the scales of their blocks (whole tensors: the elements), as floats or as the words of BF16,
// which must hold them. `over_rows`: blocks run down the rows of the matrix. amax_and_decode: two floats on the device;
// the second becomes what a product is multiplied by afterwards. seed: elements are rounded stochastically, by
// random_bits(seed, index), the index being that of the matrix whose blocks run along its rows.
void scale_operand_on_device(const void* in, ProductWords words, void* out, bool out_is_bf16, std::size_t rows,
                             std::size_t cols, const BlockFormat& format, bool over_rows,
                             std::optional<std::uint64_t> seed, float* amax_and_decode, GpuStream stream);

// Runs of 16 down the rows of a matrix, times the random Hadamard matrix of scale/hadamard.hpp; rows that are left over
// stay as they are. out: it may be in, where that holds floats.
void turn_by_hadamard_on_device(const void* in, ProductWords words, float* out, std::size_t rows, std::size_t cols,
                                GpuStream stream);

// What comes after a product of rows x cols, in one pass: times both factors (at once where their product is a normal
// number, else one after the other), plus a bias for each column, rounded. Null pointers and no cast: left out. out: as
// floats (it may be d), or as the words of FP16 or BF16, to which what is written is rounded.
void finish_product_on_device(const float* d, void* out, ProductWords words, std::size_t rows, std::size_t cols,
                              const float* first, const float* second, const float* bias,
                              const std::optional<FormatCast>& to, GpuStream stream);

}  // namespace narrow
