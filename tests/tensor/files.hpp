// Files made by hand for the tests, byte for byte from the formats' definitions; shares no code with the readers.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "narrow/base/error.hpp"
#include "narrow/tensor/mapped_file.hpp"
#include "support/contains.hpp"
#include "support/inputs.hpp"

namespace test {

// A new folder that is removed with everything in it.
class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "narrow_tensor_XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) throw narrow::Error("no temporary folder");
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  std::string write(const std::string& name, std::string_view content) const {
    std::ofstream(*this / name, std::ios::binary) << content;
    return *this / name;
  }

 private:
  std::string path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string random_bytes(std::size_t count, std::uint64_t seed) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(mix(seed * 1000003 + i));
  return bytes;
}

inline std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(i < 8 ? value >> (8 * i) & 0xFF : 0);
  return text;
}

inline std::string safetensors(const std::string& json, const std::string& data = "") {
  return little_endian(json.size(), 8) + json + data;
}

inline std::string npy(const std::string& dict, const std::string& data = "", int major = 1) {
  return std::string("\x93NUMPY") + static_cast<char>(major) + '\0' + little_endian(dict.size(), major == 1 ? 2 : 4) +
         dict + data;
}
inline std::string npy_of(const std::string& descr, const std::string& shape, const std::string& data,
                          bool fortran = false) {
  return npy(
      "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }\n",
      data);
}

inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
inline std::shared_ptr<const narrow::MappedFile> in_memory(std::string_view text, const std::string& path = "memory") {
  return narrow::MappedFile::in_memory(bytes_of(text), path);
}


// One line, printable, not endless.
inline bool is_one_line(const std::string& message) {
  if (message.empty() || message.size() > 1000) return false;
  for (const char c : message)
    if (static_cast<unsigned char>(c) < 0x20) return false;
  return true;
}

}  // namespace test
