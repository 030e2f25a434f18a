// .safetensors: u64 LE N | N bytes of JSON | data. Every rule of the reference reader, and duplicate keys.
#pragma once

#include <utility>

#include "narrow/tensor/mapped_file.hpp"

namespace narrow {

struct SafetensorsEntry {
  TensorHeader header;
  std::uint64_t begin = 0, end = 0;  // bytes after data_start
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their data
  std::vector<std::pair<std::string, std::string>> metadata;
  std::uint64_t data_start = 0;
};

// Throws Error without the name of the file.
SafetensorsHeader parse_safetensors(const MappedFile& file);

struct TensorFile;
TensorFile read_safetensors(std::shared_ptr<const MappedFile> file);

}  // namespace narrow
