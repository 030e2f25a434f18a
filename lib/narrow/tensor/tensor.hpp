// A named array with shape and element type whose bytes stay where they are until they are asked for.
//
//   const Tensor tensor = open_tensor("model.safetensors:head.weight");
//   std::vector<float> values(tensor.values());
//   read_values(tensor, 0, std::span(values));
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "narrow/tensor/element_type.hpp"

namespace narrow {

// Where the bytes of one tensor come from: a mapped file, memory, or an inflating stream.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills out with the bytes from offset on; from any thread. Ascending offsets are fast, others may start anew.
  virtual void read(std::uint64_t offset, std::span<std::byte> out) const = 0;
  // All bytes, where they lie in memory (any alignment); empty where they do not.
  virtual std::span<const std::byte> mapped() const { return {}; }
  // Throws Error when bytes that were there at the beginning are gone (a mapped file that somebody cut). Reading them
  // would end the process; asked before each piece, so that only a cut in the middle of a piece is still fatal.
  virtual void check() const {}
  // What was read need not stay in memory.
  virtual void forget() const {}
};

// What a tensor is, without its bytes.
struct TensorHeader {
  std::string name;
  ElementType type;
  std::vector<std::uint64_t> shape;  // empty: a scalar

  std::uint64_t elements() const;  // product of the shape; 2^64 - 1 where it is larger
  std::uint64_t values() const;
  std::uint64_t bytes() const;
};

struct BlockParts;

// A tensor: what it is, and where its bytes are.
struct Tensor : TensorHeader {
  bool column_major = false;  // Fortran order: the first index runs fastest
  bool big_endian = false;
  std::shared_ptr<const ByteSource> source;
  std::shared_ptr<const BlockParts> blocks = {};  // where the file holds codes and scales (block_tensor.hpp); then F32
};

// Integer (or opaque) elements read as codes of a format of the same width (or narrower: tf32 in 32-bit words keeps its
// upper 19 bits as files do). Throws Error when the widths do not fit.
Tensor with_format(Tensor tensor, const Format& format);

// Values [first, first + out.size()) in the order of the file, as codes: sub-byte types unpacked, byte order of the
// machine, integers and truth values as they are. The code type must hold the element. Throws Error beyond the end.
void read_codes(const Tensor& tensor, std::uint64_t first, std::span<std::uint8_t> out);
void read_codes(const Tensor& tensor, std::uint64_t first, std::span<std::uint16_t> out);
void read_codes(const Tensor& tensor, std::uint64_t first, std::span<std::uint32_t> out);
void read_codes(const Tensor& tensor, std::uint64_t first, std::span<std::uint64_t> out);

// The same as numbers. Formats decode exactly (fp64 into float rounds to nearest even once, like (float)x); integers
// are converted, rounding to nearest where they do not fit.
void read_values(const Tensor& tensor, std::uint64_t first, std::span<float> out);
void read_values(const Tensor& tensor, std::uint64_t first, std::span<double> out);

// The same without a copy where the file holds aligned FP32 in the machine's byte order; else decoded into scratch.
std::span<const float> view_values(const Tensor& tensor, std::uint64_t first, std::size_t count,
                                   std::vector<float>& scratch);

// A tensor that owns its bytes (given as the file would hold them: little endian, sub-byte codes packed).
Tensor make_tensor(TensorHeader header, std::vector<std::byte> bytes);

// The elements of a Fortran-ordered tensor in C order, moved when they are read.
// The tensor itself where its order is already that of C. Bytes that are not mapped are copied first (large ones to a
// temporary file without a name), because the order of Fortran jumps back and forth in them.
Tensor row_major(const Tensor& tensor);

// The indices of a flat index in C order.
std::vector<std::uint64_t> indices_of(std::uint64_t flat, std::span<const std::uint64_t> shape);

// Told how many bytes of the files are done since the last call, always by the calling thread.
using BytesDone = std::function<void(std::uint64_t)>;

}  // namespace narrow
