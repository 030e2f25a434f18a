// The rows, one a file, and what they are made of.
#pragma once

#include "narrow/tensor/layout/layout.hpp"

namespace narrow {

extern const Layout narrow_layout, deepseek_layout, compressed_tensors_layout, modelopt_layout, mxfp4_layout,
    bitsandbytes_layout;

// What stands before the ending of a name; empty when the name does not end so.
std::optional<std::string> before_ending(std::string_view name, std::string_view ending);
std::string text_at(const nlohmann::json& object, const char* key);  // "" where there is no text
std::string describe(const TensorHeader& header);                    // type and shape
void require_shape(const Tensor& part, const std::vector<std::uint64_t>& shape, std::string_view format);
const Tensor& require_one(const Tensor& tensor);  // a number

// A tensor whose bytes are made when they are asked for, from an offset on; as a part it has the name of what it is
// made of.
Tensor computed(TensorHeader header, std::function<void(std::uint64_t, std::span<std::byte>)> read);
// The same bytes as elements of another type.
Tensor retyped(Tensor tensor, std::string_view type, std::vector<std::uint64_t> shape);
// A scale that is stored as U8 is an E8M0 code.
Tensor as_e8m0(const Tensor& scales);

// FP8 or INT8 with scales of the tensor ([], [1]), of its rows ([N], [N, 1]), or of blocks where the configuration says
// how large they are (0 x 0: it does not). Ones in the shape of the scales do not count.
BlockParts scaled_matrix(std::string_view layout, const Tensor& codes, const Tensor& scales, const Format& element,
                         MatrixSize block);
// E2M1 codes, two a byte, the first in the low half; shape: of the values; blocks of 16 or 32 along the rows.
BlockParts fp4_blocks(std::string_view layout, const Tensor& bytes, std::vector<std::uint64_t> shape,
                      const Tensor& scales, std::size_t block);
// Those of these names that are there.
void add_beside(BlockParts& parts, const CheckpointParts& all, std::initializer_list<std::string> names);

}  // namespace narrow
