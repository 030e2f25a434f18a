// Tensors in block formats: the matrix that a tensor is, its rows of blocks piece by piece, and what is done with them.
#pragma once

#include <functional>

#include "narrow/scale/block_format_statistics.hpp"
#include "narrow/tensor/cast_tensor.hpp"

namespace narrow {

// Blocks lie along the last dimension: a tensor is a matrix with rows of that length.
struct MatrixSize {
  std::size_t rows = 0, cols = 0;
};
MatrixSize matrix_of(const TensorHeader& header);

// The numbers of a tensor (in C order, as FP32) in pieces of whole blocks, one after the other.
using PieceBody = std::function<void(std::span<const float> values, std::size_t rows, std::size_t cols)>;
void for_each_piece(const Tensor& tensor, const BlockFormat& format, const BytesDone& done, const PieceBody& body);

BlockFormatStatistics block_tensor_statistics(const Tensor& tensor, const BlockFormat& format, double scale,
                                              const BytesDone& done, bool with_fates = false);

// How a file holds a tensor of this shape in a block format: codes (under the name given), NAME.scale with the scales
// of the blocks, and for NVFP4 NAME.scale2 with the factor of the tensor. A value is code * (scale * scale2) in FP32,
// whatever rule chose the scales.
std::vector<TensorHeader> block_headers(const TensorHeader& header, const BlockFormat& format);

// The bytes of these tensors one after the other, or (values) what they decode to, as FP32.
void quantise_tensor(const Tensor& tensor, const BlockFormat& format, CastResult result, const WriteBytes& write,
                     const BytesDone& done);

// scale2 of a tensor that keeps this much beside its blocks (BlockFormat's rule says what; see TensorScale): the factor
// that files hold.
float tensor_factor(float stored, const BlockFormat& format);

}  // namespace narrow
