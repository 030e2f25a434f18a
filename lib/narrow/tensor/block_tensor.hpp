// Tensors in block formats: the matrix that a tensor is, its rows of blocks piece by piece, and what is done with them.
#pragma once

#include <functional>

#include "narrow/scale/block_format_statistics.hpp"
#include "narrow/tensor/block_parts.hpp"
#include "narrow/tensor/cast_tensor.hpp"

namespace narrow {

// The numbers of a tensor (in C order, as FP32) in pieces of whole blocks, one after the other.
using PieceBody = std::function<void(std::span<const float> values, std::size_t rows, std::size_t cols)>;
void for_each_piece(const Tensor& tensor, const BlockFormat& format, const BytesDone& done, const PieceBody& body);

BlockFormatStatistics block_tensor_statistics(const Tensor& tensor, const BlockFormat& format, double scale,
                                              const BytesDone& done, bool with_fates = false);

// The bytes of the tensors of block_headers one after the other, or (values) what they decode to, as FP32.
// Returns how many blocks have no finite scale: whatever they hold decodes to NaN or Inf.
std::uint64_t quantise_tensor(const Tensor& tensor, const BlockFormat& format, CastResult result,
                              const WriteBytes& write, const BytesDone& done);

}  // namespace narrow
