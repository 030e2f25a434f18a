// .npy: magic, version, header length, a Python dict literal, data.
#pragma once

#include <string_view>

#include "narrow/tensor/mapped_file.hpp"

namespace narrow {

struct NpyHeader {
  ElementType type;
  std::vector<std::uint64_t> shape;
  bool column_major = false;
  bool big_endian = false;
  std::uint64_t data_start = 0;
  std::uint64_t data_bytes = 0;
};

inline constexpr std::string_view npy_magic = "\x93NUMPY";

// beginning: the first bytes of the file (all, or at least longest_npy_beginning); file_bytes: how many there are in
// all. The data must fill the rest exactly. Throws Error without the name of the file.
NpyHeader parse_npy(std::span<const std::byte> beginning, std::uint64_t file_bytes);
extern const std::size_t longest_npy_beginning;

// The header that a writer puts before the data, so that they begin at a multiple of 64.
std::string npy_header_text(const TensorHeader& header, bool column_major);

Tensor npy_tensor(const NpyHeader& header, std::string name, std::shared_ptr<const ByteSource> data);

struct TensorFile;
TensorFile read_npy(std::shared_ptr<const MappedFile> file);

}  // namespace narrow
