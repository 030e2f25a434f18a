// Tensors in block formats: codes and scales in a file are one tensor, decoded when read; and what is done with its blocks.
//
//   const Tensor tensor = make_tensor({"w", *find_element_type("F32"), {2, 32}}, std::vector<std::byte>(256));
//   const std::vector<TensorHeader> parts = block_headers(tensor, require_block_format("mxfp8_e4m3"));
#pragma once

#include <functional>
#include <optional>

#include "narrow/scale/block_format.hpp"
#include "narrow/tensor/cast_tensor.hpp"
#include "narrow/tensor/tensor_file.hpp"

namespace narrow {

// The parts of one tensor in a block format.
struct BlockParts {
  std::string format_name;  // as the file spells it: "nvfp4:te_nvfp4"
  BlockFormat format;
  Tensor codes, scales;
  std::optional<Tensor> scale2;
  bool scale2_is_amax = false;  // of the tensor, not the factor: files of te_nvfp4 without the key of scale2

  std::uint64_t bytes() const;  // of all parts
};

// Blocks lie along the last dimension: a tensor is a matrix with rows of that length.
struct MatrixSize {
  std::size_t rows = 0, cols = 0;
};
MatrixSize matrix_of(const TensorHeader& header);

// How a file holds a tensor of this shape in a block format: codes (under the name given), NAME.scale with the scales
// of the blocks, and for NVFP4 NAME.scale2 with the factor of the tensor. A value is code * (scale * scale2) in FP32,
// whatever rule chose the scales.
std::vector<TensorHeader> block_headers(const TensorHeader& header, const BlockFormat& format);

// What the metadata of a .safetensors file says about a tensor NAME that cast wrote: the block format and its rule; and
// that NAME.scale2 is a factor.
std::string block_format_key(std::string_view name);
std::string scale2_key(std::string_view name);
inline constexpr std::string_view scale2_is_factor = "factor";

// Replaces the parts of block-quantised tensors by one tensor each, of type F32 with `blocks` set: value = code *
// (scale * scale2). Parts that do not fit each other become unreadable; codes are never taken for values. To read
// another layout of checkpoints, add a row to the table in block_parts.cpp.
void join_blocks(TensorFile& file);

// Bytes of a tensor in its file.
std::uint64_t stored_bytes(const Tensor& tensor);

// What a block format does to a tensor.
BlockFormatStatistics block_tensor_statistics(const Tensor& tensor, const BlockFormat& format, double scale,
                                              const BytesDone& done, bool with_fates = false, PieceLog* log = nullptr);

// The bytes of the tensors of block_headers one after the other, or (values) what they decode to, as FP32.
// Returns how many blocks have no finite scale: whatever they hold decodes to NaN or Inf.
std::uint64_t quantise_tensor(const Tensor& tensor, const BlockFormat& format, CastResult result,
                              const WriteBytes& write, const BytesDone& done);
std::uint64_t quantise_tensor(const Tensor& tensor, const BlockFormat& format, CastResult result, const WriteAt& write,
                              const TensorPass& pass);

}  // namespace narrow
