// What every fuzz target does with a file: open it, read everything that was accepted, look at the message otherwise.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "narrow/base/error.hpp"
#include "narrow/tensor/tensor_file.hpp"

namespace fuzz {

inline void require(bool holds) {
  if (!holds) std::abort();
}

// A piece at the beginning and one at the end; the end only where a deflated member can be reached quickly.
inline void read_all(const narrow::TensorFile& file) {
  constexpr std::uint64_t piece = 5000, soon = 1 << 20;
  std::vector<float> floats, scratch;
  std::vector<double> doubles;
  std::vector<std::uint64_t> codes;
  std::size_t tensors = 0;
  for (const narrow::Tensor& tensor : file.tensors) {
    if (++tensors > 64) break;
    const std::uint64_t values = tensor.values(), count = std::min(values, piece);
    for (const std::uint64_t first : {std::uint64_t{0}, values - count}) {
      if (first > soon && tensor.source->mapped().empty()) continue;
      floats.resize(count);
      doubles.resize(count);
      codes.resize(count);
      narrow::read_values(tensor, first, std::span(floats));
      narrow::read_values(tensor, first, std::span(doubles));
      narrow::read_codes(tensor, first, std::span(codes));
      require(narrow::view_values(tensor, first, count, scratch).size() == count);
    }
    require(tensor.source->mapped().empty() || tensor.source->mapped().size() == tensor.bytes());
  }
}

inline void check_message(const std::string& message) {
  require(!message.empty() && message.size() < 2000);
  for (const char c : message) require(static_cast<unsigned char>(c) >= 0x20);
}

// Errors may come from opening and from reading.
template <class Open>
void run(const Open& open) {
  try {
    read_all(open());
  } catch (const narrow::Error& error) {
    check_message(error.what());
  }
}

// A folder in memory for targets whose input is more than one file, or that write: no disk is waited for.
inline std::string scratch_folder() {
  setenv("NARROW_NO_SYNC", "1", 1);
  std::string path = "/dev/shm/narrow-fuzz-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    path = std::filesystem::temp_directory_path().string() + "/narrow-fuzz-XXXXXX";
    require(mkdtemp(path.data()) != nullptr);
  }
  static const struct Removed {
    std::string path;
    ~Removed() { std::filesystem::remove_all(path); }
  } removed{path};
  return path;
}

inline std::vector<std::byte> bytes_of(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  return {bytes, bytes + size};
}

}  // namespace fuzz
