// The directory of a zip archive, checked against the archive: where each member lies and how large it says it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace narrow {

struct ZipMember {
  std::string name;
  bool deflated = false;
  std::uint64_t begin = 0;       // of the data, in the file
  std::uint64_t compressed = 0;  // bytes in the file; inside it, and no two members overlap
  std::uint64_t size = 0;        // bytes after inflating, as declared
  std::uint32_t crc = 0;
  std::string problem;  // why it cannot be read; the numbers mean nothing then
};

// Members in the order of their data. One volume, no encryption, stored or deflated, zip64 where needed. Throws Error.
std::vector<ZipMember> read_zip_directory(std::span<const std::byte> file);

}  // namespace narrow
