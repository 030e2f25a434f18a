// The bytes of a whole file without reading them: mapped, or kept in memory. Knows nothing of what they mean.
#pragma once

#include <memory>
#include <string>

#include "narrow/tensor/tensor.hpp"

namespace narrow {

class MappedFile {
 public:
  // Regular files only: a pipe would block, a device has no size. Throws Error: what path is, and the reason.
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  // All of standard input: mapped when it is a file, else copied to a temporary file without a name.
  static std::shared_ptr<const MappedFile> standard_input();
  static std::shared_ptr<const MappedFile> in_memory(std::vector<std::byte> bytes, std::string path = "memory");

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  void check() const;  // throws Error when the file is shorter than when it was opened

 private:
  MappedFile() = default;
  static std::shared_ptr<const MappedFile> map(int file, std::string path);

  std::string path_;
  std::span<const std::byte> bytes_;
  std::vector<std::byte> memory_;
  int file_ = -1;
};

// The bytes [begin, begin + size) of a file; they must be there.
std::shared_ptr<const ByteSource> slice(std::shared_ptr<const MappedFile> file, std::uint64_t begin,
                                        std::uint64_t size);

}  // namespace narrow
