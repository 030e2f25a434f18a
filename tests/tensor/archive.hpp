// Zip archives made by hand for the tests; every field can be set to a lie.
#pragma once

#include <optional>

#include "files.hpp"

namespace test {

// One bit at a time, straight from the definition.
inline std::uint32_t slow_crc32(std::string_view data) {
  std::uint32_t rest = 0xFFFFFFFF;
  for (const char c : data) {
    rest ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ ((rest & 1) != 0 ? 0xEDB88320u : 0);
  }
  return ~rest;
}

struct Member {
  std::string name;
  std::string data;  // as it lies in the archive
  int method = 0;
  std::uint64_t size = 0;  // after inflating
  std::uint32_t crc = 0;
  int flags = 0;
  bool zip64 = false;
  std::optional<std::uint64_t> central_compressed = {}, central_local = {};
  std::optional<std::string> local_name = {};
};

inline Member stored(const std::string& name, const std::string& data) {
  return {.name = name, .data = data, .size = data.size(), .crc = slow_crc32(data)};
}

// Deflate without compression: blocks that store up to 65535 bytes each.
inline std::string deflated_as_is(const std::string& data) {
  std::string out;
  for (std::size_t at = 0; at < data.size() || at == 0; at += 65535) {
    const std::string piece = data.substr(at, 65535);
    out += static_cast<char>(at + 65535 >= data.size() ? 1 : 0);
    out += little_endian(piece.size(), 2) + little_endian(~piece.size(), 2) + piece;
  }
  return out;
}
inline Member deflated(const std::string& name, const std::string& data) {
  return {.name = name, .data = deflated_as_is(data), .method = 8, .size = data.size(), .crc = slow_crc32(data)};
}

struct ArchiveOptions {
  std::string comment = {};
  bool zip64_end = false;
  std::optional<std::uint64_t> members = {}, directory_begin = {}, directory_bytes = {};
};

inline std::string archive(const std::vector<Member>& members, const ArchiveOptions& options = {}) {
  std::string file, directory;
  for (const Member& m : members) {
    const std::uint64_t local = file.size();
    const std::string name = m.local_name.value_or(m.name);
    const bool streamed = (m.flags & 8) != 0;
    const std::string common = little_endian(static_cast<unsigned>(m.flags), 2) +
                               little_endian(static_cast<unsigned>(m.method), 2) + little_endian(0, 4);
    const std::string extra = m.zip64 ? little_endian(1, 2) + little_endian(16, 2) + little_endian(m.size, 8) +
                                            little_endian(m.data.size(), 8)
                                      : "";
    file += "PK\x03\x04" + little_endian(20, 2) + common + little_endian(streamed ? 0 : m.crc, 4);
    file += little_endian(streamed  ? 0
                          : m.zip64 ? 0xFFFFFFFF
                                    : m.data.size(),
                          4) +
            little_endian(streamed  ? 0
                          : m.zip64 ? 0xFFFFFFFF
                                    : m.size,
                          4);
    file += little_endian(name.size(), 2) + little_endian(extra.size(), 2) + name + extra + m.data;
    if (streamed)
      file += "PK\x07\x08" + little_endian(m.crc, 4) + little_endian(m.data.size(), 4) + little_endian(m.size, 4);
    const std::uint64_t compressed = m.central_compressed.value_or(m.data.size());
    directory += "PK\x01\x02" + little_endian(20, 2) + little_endian(20, 2) + common + little_endian(m.crc, 4);
    directory += little_endian(m.zip64 ? 0xFFFFFFFF : compressed, 4) + little_endian(m.zip64 ? 0xFFFFFFFF : m.size, 4);
    directory += little_endian(m.name.size(), 2) + little_endian(extra.size(), 2) + little_endian(0, 2 + 2 + 2 + 4);
    directory += little_endian(m.central_local.value_or(local), 4) + m.name + extra;
  }
  const std::uint64_t begin = options.directory_begin.value_or(file.size()),
                      bytes = options.directory_bytes.value_or(directory.size());
  const std::uint64_t count = options.members.value_or(members.size());
  file += directory;
  if (options.zip64_end) {
    const std::uint64_t end64 = file.size();
    file += "PK\x06\x06" + little_endian(44, 8) + little_endian(45, 2) + little_endian(45, 2) + little_endian(0, 8) +
            little_endian(count, 8) + little_endian(count, 8) + little_endian(bytes, 8) + little_endian(begin, 8);
    file += "PK\x06\x07" + little_endian(0, 4) + little_endian(end64, 8) + little_endian(1, 4);
  }
  const bool in64 = options.zip64_end;
  file += "PK\x05\x06" + little_endian(0, 4) + little_endian(in64 ? 0xFFFF : count, 2) +
          little_endian(in64 ? 0xFFFF : count, 2);
  file += little_endian(in64 ? 0xFFFFFFFF : bytes, 4) + little_endian(in64 ? 0xFFFFFFFF : begin, 4);
  return file + little_endian(options.comment.size(), 2) + options.comment;
}

}  // namespace test
