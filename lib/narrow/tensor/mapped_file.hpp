// The bytes of a whole file without reading them: mapped, or kept in memory. Knows nothing of what they mean.
#pragma once

#include <memory>
#include <string>

#include "narrow/tensor/limits.hpp"
#include "narrow/tensor/tensor.hpp"

namespace narrow {

class MappedFile {
 public:
  // Regular files only: a pipe would block, a device has no size. Throws Error: what path is, and the reason.
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  // All of standard input: mapped when it is a file, else copied to a temporary file without a name; of a pipe that
  // does not end, `most` bytes.
  static std::shared_ptr<const MappedFile> standard_input(std::uint64_t most = largest_pipe);
  // All bytes of a source in a temporary file without a name, for those who must jump back and forth in what is
  // inflated: the system can take the memory back.
  static std::shared_ptr<const MappedFile> copy_of(const ByteSource& source, std::uint64_t size);
  static std::shared_ptr<const MappedFile> in_memory(std::vector<std::byte> bytes, std::string path = "memory");

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const;
  std::uint64_t size() const { return size_; }
  // The first bytes, at most so many: where nothing can be mapped (a browser), these alone are read. They stay until
  // more are asked for.
  std::span<const std::byte> head(std::uint64_t most) const;
  void read(std::uint64_t offset, std::span<std::byte> out) const;  // bytes that are there
  void check() const;   // throws Error when the file is shorter than when it was opened
  void forget() const;  // what was read need not stay in memory; it is read again when it is asked for

  // For a handler of SIGBUS, which comes where a file is cut (or its disk fails) between check() and the end of a
  // piece: the message about the file that is mapped there; nullptr where none is. Async-signal-safe.
  static const char* message_at(const void* address) noexcept;

 private:
  MappedFile() = default;
  static std::shared_ptr<const MappedFile> map(int file, std::string path, bool has_name);
  std::int64_t bytes_left() const noexcept;  // of those mapped; -1 where that cannot be told

  std::string path_, message_;
  std::uint64_t size_ = 0;
  std::span<const std::byte> bytes_;
  mutable std::vector<std::byte> memory_;
  bool mapped_ = false;
  // Files with a name are not kept open (a model may have more shards than a process may have files open): the name is
  // asked, as long as it is that of the same file. The others have no name that could be asked.
  int file_ = -1;
  std::uint64_t device_ = 0, inode_ = 0;
  MappedFile *next_ = nullptr, *previous_ = nullptr;  // in the list of what is mapped
};

// The bytes [begin, begin + size) of a file; they must be there.
std::shared_ptr<const ByteSource> slice(std::shared_ptr<const MappedFile> file, std::uint64_t begin,
                                        std::uint64_t size);

}  // namespace narrow
