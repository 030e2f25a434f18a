// A tensor that a file holds as codes and scales is one tensor: the parts are found, checked, and decoded when read.
#pragma once

#include <optional>

#include "narrow/scale/block_format.hpp"
#include "narrow/tensor/tensor_file.hpp"

namespace narrow {

struct BlockParts {
  std::string format_name;  // as the file spells it: "nvfp4:te_nvfp4"
  BlockFormat format;
  Tensor codes, scales;
  std::optional<Tensor> scale2;
  bool scale2_is_amax = false;  // of the tensor, not the factor: files of te_nvfp4 without the key of scale2

  std::uint64_t bytes() const;  // of all parts
};

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

}  // namespace narrow
