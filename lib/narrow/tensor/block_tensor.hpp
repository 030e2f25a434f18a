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
  std::string layout = "narrow";  // whose files hold it so (layout/layout.hpp)
  std::string format_name;  // as narrow calls it: "nvfp4", with its rule where the file names it: "nvfp4:te_nvfp4"
  BlockFormat format;       // element, scale and block; the rule means something only where format_name has it
  std::string name = {};    // of the whole
  std::vector<std::uint64_t> shape = {};  // the same
  Tensor codes, scales;
  std::optional<Tensor> scale2 = {};
  // What scale2 is.
  enum class Second : std::uint8_t { factor, divisor, amax };
  Second second = Second::factor;  // of this tensor
  // Codes that no element type describes: `bits` each, rows of `row_bits`, the first code in the low bits (or the high
  // ones).
  struct Packing {
    int bits = 0;  // 0: the elements of `codes` are the codes
    bool high_first = false;
    std::uint64_t row_bits = 0;
  };
  Packing packing = {};              // of this tensor
  std::vector<float> values = {};    // what the codes are worth, where they are not of format.element
  std::optional<Tensor> zeros = {};  // subtracted from what the code is worth, one a block
  float divisor = 1;                 // of all values
  bool is_flat = false;              // blocks go on from row to row
  std::vector<Tensor> beside = {};   // without a say in the values: shapes, scales of activations

  std::vector<Tensor> stored = {};  // the parts as the file has them, whatever types their bytes are read as above

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

// Replaces the parts of block-quantised tensors by one tensor each, of type F32 with `blocks` set. Its values are the
// exact product of code and scales (and the quotient, where one divides) rounded once; of narrow's own files code *
// (scale * scale2). Parts that do not fit each other become unreadable; codes are never taken for values. To read
// another layout of checkpoints, add a row to layout/.
void join_blocks(TensorFile& file);
// One of them.
Tensor join_parts(BlockParts parts);

// Bytes of a tensor in its file.
std::uint64_t stored_bytes(const Tensor& tensor);

// What a block format does to a tensor.
BlockFormatStatistics block_tensor_statistics(const Tensor& tensor, const BlockFormat& format, double scale,
                                              const BytesDone& done, bool with_fates = false, PieceLog* log = nullptr);

// What no block format keeps: blocks without a finite scale, whose values all decode to NaN or Inf, and values that are
// NaN or Inf in FP32, in which blocks are scaled, and which most rules turn into numbers.
struct NotKept {
  std::uint64_t blocks = 0, values = 0;
  NotKept& operator+=(const NotKept& other) { return blocks += other.blocks, values += other.values, *this; }
};

// The bytes of the tensors of block_headers one after the other, or (values) what they decode to, as FP32.
NotKept quantise_tensor(const Tensor& tensor, const BlockFormat& format, CastResult result, const WriteBytes& write,
                        const BytesDone& done);
// The largest magnitude of a tensor as the rule of a format takes it.
float tensor_amax(const Tensor& tensor, const BlockFormat& format, const BytesDone& done);
// Where another layout wants the codes and the factor otherwise.
struct QuantisedForm {
  int code_bits = 0;               // 0: those of the type in block_headers
  unsigned flipped = 0;            // bits of each byte of codes: integers above 2^(b-1) instead of two's complement
  bool factor_is_divisor = false;  // of NVFP4
  std::optional<float> amax = {};  // to be taken for the tensor's own, where several share a factor
};
NotKept quantise_tensor(const Tensor& tensor, const BlockFormat& format, CastResult result, const WriteAt& write,
                        const TensorPass& pass, const QuantisedForm& form = {});

}  // namespace narrow
