#include "narrow/tensor/zip.hpp"

#include <algorithm>
#include <string_view>

#include "narrow/base/error.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/limits.hpp"
#include "narrow/tensor/little_endian.hpp"
#include "narrow/text/quote.hpp"

// Source of the layout: PKWARE, .ZIP File Format Specification (APPNOTE) 6.3.10, sections 4.3 and 4.5.3.
namespace narrow {

namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint32_t local_mark = 0x04034B50, central_mark = 0x02014B50, end_mark = 0x06054B50;
constexpr std::uint32_t end64_mark = 0x06064B50, locator64_mark = 0x07064B50;
constexpr std::size_t local_bytes = 30, central_bytes = 46, end_bytes = 22, end64_bytes = 56, locator64_bytes = 20;
constexpr std::uint32_t in_zip64 = 0xFFFFFFFF;  // "see the extra field"

struct Directory {
  std::uint64_t members = 0, begin = 0, bytes = 0;
};

std::string at_byte(std::uint64_t at) { return "byte " + std::to_string(at) + ": "; }

// The end record is the last thing in the file but for a comment, whose length it tells.
std::size_t find_end(Bytes file) {
  constexpr std::size_t longest_comment = 65535;
  for (std::size_t comment = 0; comment <= longest_comment && file.size() >= end_bytes + comment; ++comment) {
    const std::size_t at = file.size() - end_bytes - comment;
    if (load_le<std::uint32_t>(file, at) == end_mark && load_le<std::uint16_t>(file, at + 20) == comment) return at;
  }
  throw Error("a zip archive without its directory at the end; the file was cut");
}

Directory read_end64(Bytes file, std::size_t end) {
  const std::size_t locator = end - locator64_bytes;
  const auto at = load_le<std::uint64_t>(file, locator + 8);
  // The record stands directly before its locator; anything else would leave room for a second directory.
  if (locator < end64_bytes || at != locator - end64_bytes || load_le<std::uint32_t>(file, at) != end64_mark)
    throw Error(at_byte(locator) + "the zip64 end of the directory is not where it should be");
  if (load_le<std::uint32_t>(file, at + 16) != 0 || load_le<std::uint32_t>(file, at + 20) != 0)
    throw Error(at_byte(at) + "a zip archive in several volumes");
  Directory d{load_le<std::uint64_t>(file, at + 32), load_le<std::uint64_t>(file, at + 48),
              load_le<std::uint64_t>(file, at + 40)};
  if (d.begin > at || d.bytes != at - d.begin)
    throw Error(at_byte(at) + "the zip directory does not end where its end record begins");
  return d;
}

Directory find_directory(Bytes file) {
  const std::size_t end = find_end(file);
  if (end >= locator64_bytes && load_le<std::uint32_t>(file, end - locator64_bytes) == locator64_mark)
    return read_end64(file, end);
  if (load_le<std::uint16_t>(file, end + 4) != 0 || load_le<std::uint16_t>(file, end + 6) != 0)
    throw Error(at_byte(end) + "a zip archive in several volumes");
  const Directory d{load_le<std::uint16_t>(file, end + 10), load_le<std::uint32_t>(file, end + 16),
                    load_le<std::uint32_t>(file, end + 12)};
  if (d.begin > end || d.bytes != end - d.begin)
    throw Error(at_byte(end) + "the zip directory does not end where its end record begins");
  return d;
}

// Sizes and offset of a large member: in this order, each only where the plain field says 0xFFFFFFFF.
void read_extra64(Bytes extra, ZipMember& member, std::uint64_t& local) {
  constexpr std::uint16_t zip64_id = 1;
  for (std::size_t at = 0; at + 4 <= extra.size();) {
    const auto id = load_le<std::uint16_t>(extra, at);
    const std::size_t bytes = load_le<std::uint16_t>(extra, at + 2);
    at += 4;
    if (bytes > extra.size() - at) break;
    if (id == zip64_id) {
      std::size_t used = 0;
      for (std::uint64_t* field : {&member.size, &member.compressed, &local}) {
        if (*field != in_zip64) continue;
        if (used + 8 > bytes) throw Error("its zip64 field is too short");
        *field = load_le<std::uint64_t>(extra, at + used);
        used += 8;
      }
      return;
    }
    at += bytes;
  }
}

// Finds the data behind the local header, which must tell the same story as the directory.
void read_local(Bytes file, std::uint64_t local, std::uint64_t limit, std::uint16_t flags, ZipMember& member) {
  if (local > limit || limit - local < local_bytes || load_le<std::uint32_t>(file, local) != local_mark)
    throw Error("no local header at byte " + std::to_string(local));
  const std::uint64_t name_bytes = load_le<std::uint16_t>(file, local + 26),
                      extra_bytes = load_le<std::uint16_t>(file, local + 28);
  const std::uint64_t rest = limit - local - local_bytes;
  if (name_bytes + extra_bytes > rest || member.compressed > rest - name_bytes - extra_bytes)
    throw Error("its " + std::to_string(member.compressed) + " bytes reach into the directory");
  const std::string_view name(reinterpret_cast<const char*>(file.data()) + local + local_bytes, name_bytes);
  const bool deflated = load_le<std::uint16_t>(file, local + 8) != 0;
  if (name != member.name || deflated != member.deflated)
    throw Error("its local header at byte " + std::to_string(local) + " says something else");
  // A member that was streamed has its sizes behind it (bit 3 of the flags); the directory has them anyway.
  const auto compressed = load_le<std::uint32_t>(file, local + 18), size = load_le<std::uint32_t>(file, local + 22);
  const auto agrees = [](std::uint32_t here, std::uint64_t there) { return here == in_zip64 || here == there; };
  if ((flags & 8) == 0 && (!agrees(compressed, member.compressed) || !agrees(size, member.size)))
    throw Error("its local header at byte " + std::to_string(local) + " declares another size");
  member.begin = local + local_bytes + name_bytes + extra_bytes;
}

void check_sizes(const ZipMember& member) {
  if (!member.deflated && member.compressed != member.size)
    throw Error("stored, but " + std::to_string(member.compressed) + " bytes are declared to be " +
                std::to_string(member.size));
  // Deflate makes at most 258 bytes of 2 bits: more is a lie.
  if (member.deflated && (member.size > largest_number || member.size / 1032 > member.compressed))
    throw Error(std::to_string(member.compressed) + " bytes cannot inflate to " + std::to_string(member.size));
}

// Reads the directory entry at `at` and moves `at` behind it.
ZipMember read_member(Bytes file, const Directory& d, std::uint64_t& at) {
  const std::uint64_t end = d.begin + d.bytes;
  if (end - at < central_bytes || load_le<std::uint32_t>(file, at) != central_mark)
    throw Error(at_byte(at) + "no zip directory entry");
  const auto flags = load_le<std::uint16_t>(file, at + 8), method = load_le<std::uint16_t>(file, at + 10);
  const std::uint64_t name_bytes = load_le<std::uint16_t>(file, at + 28),
                      extra_bytes = load_le<std::uint16_t>(file, at + 30);
  const std::uint64_t comment_bytes = load_le<std::uint16_t>(file, at + 32);
  if (end - at - central_bytes < name_bytes + extra_bytes + comment_bytes)
    throw Error(at_byte(at) + "a zip directory entry that was cut");
  ZipMember member;
  member.name.assign(reinterpret_cast<const char*>(file.data()) + at + central_bytes, name_bytes);
  if (member.name.empty() || member.name.size() > longest_name || !is_utf8(member.name))
    throw Error(at_byte(at) + "member " + quote(member.name) + ": a bad name");
  // What is wrong with one member says nothing about the others.
  try {
    if ((flags & 1) != 0) throw Error("encrypted");
    if (method != 0 && method != 8)
      throw Error("compression method " + std::to_string(method) + "; stored (0) and deflated (8) are read");
    member.deflated = method == 8;
    member.crc = load_le<std::uint32_t>(file, at + 16);
    member.compressed = load_le<std::uint32_t>(file, at + 20);
    member.size = load_le<std::uint32_t>(file, at + 24);
    std::uint64_t local = load_le<std::uint32_t>(file, at + 42);
    read_extra64(file.subspan(at + central_bytes + name_bytes, extra_bytes), member, local);
    check_sizes(member);
    read_local(file, local, d.begin, flags, member);
  } catch (const Error& error) {
    member.problem = error.what();
    member.begin = member.compressed = member.size = 0;
  }
  at += central_bytes + name_bytes + extra_bytes + comment_bytes;
  return member;
}

void check_apart(const std::vector<ZipMember>& members) {
  for (std::size_t i = 1; i < members.size(); ++i)
    // The local header of a member lies before its data, too.
    if (members[i - 1].problem.empty() &&
        members[i].begin - local_bytes - members[i].name.size() < members[i - 1].begin + members[i - 1].compressed)
      throw Error("members " + quote(members[i - 1].name) + " and " + quote(members[i].name) + " overlap");
  std::vector<std::string_view> names;
  for (const ZipMember& member : members) names.push_back(member.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) throw Error("member " + quote(*twice) + " comes twice");
}

}  // namespace

std::vector<ZipMember> read_zip_directory(Bytes file) {
  const Directory d = find_directory(file);
  if (d.members > most_tensors) throw Error("more than " + std::to_string(most_tensors) + " members");
  if (d.members > d.bytes / central_bytes)
    throw Error("a zip directory of " + std::to_string(d.bytes) + " bytes cannot hold " + std::to_string(d.members) +
                " members");
  std::vector<ZipMember> members;
  std::uint64_t at = d.begin;
  for (std::uint64_t i = 0; i < d.members; ++i) members.push_back(read_member(file, d, at));
  if (at != d.begin + d.bytes)
    throw Error(at_byte(at) + "the zip directory is longer than its " + std::to_string(d.members) + " members");
  std::stable_sort(members.begin(), members.end(),
                   [](const ZipMember& a, const ZipMember& b) { return a.begin < b.begin; });
  check_apart(members);
  return members;
}

}  // namespace narrow
