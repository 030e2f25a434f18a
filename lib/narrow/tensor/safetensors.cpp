#include "narrow/tensor/safetensors.hpp"

#include <algorithm>

#include "narrow/base/error.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/limits.hpp"
#include "narrow/tensor/little_endian.hpp"
#include "narrow/tensor/safetensors_json.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace {

constexpr std::uint64_t length_bytes = 8;

void check_size(const SafetensorsEntry& entry) {
  const TensorHeader& header = entry.header;
  const std::string where = "tensor " + quote(header.name) + ": ";
  const std::string what = "shape " + shape_text(header.shape) + " of " + std::string(header.type.name);
  if (entry.end < entry.begin)
    throw Error(where + "data_offsets end at " + std::to_string(entry.end) + " before they begin at " +
                std::to_string(entry.begin));
  const Size size = size_of(header.shape, header.type.bits);
  if (size.problem != nullptr) throw Error(where + what + " " + size.problem);
  if (size.bytes != entry.end - entry.begin)
    throw Error(where + what + " takes " + std::to_string(size.bytes) + " bytes, data_offsets hold " +
                std::to_string(entry.end - entry.begin));
}

// Without holes and without overlap from the first byte of the data to the last of the file.
void check_order(const std::vector<SafetensorsEntry>& entries, std::uint64_t data_bytes) {
  std::uint64_t expected = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::string where = "tensor " + quote(entry.header.name) + ": ";
    if (entry.begin != expected)
      throw Error(where + "data begin at " + std::to_string(entry.begin) +
                  (entry.begin > expected ? ", a hole after " : ", an overlap with what ends at ") +
                  std::to_string(expected));
    if (entry.end > data_bytes)
      throw Error(where + "data end at " + std::to_string(entry.end) + ", but the file holds only " +
                  std::to_string(data_bytes) + " bytes of data; it was cut");
    expected = entry.end;
  }
  if (expected != data_bytes)
    throw Error(std::to_string(data_bytes - expected) + " bytes after the last tensor, which no tensor owns");
}

}  // namespace

SafetensorsHeader parse_safetensors(const MappedFile& file) {
  if (file.size() < length_bytes)
    throw Error("only " + std::to_string(file.size()) +
                " bytes; a .safetensors file begins with 8 bytes of header length");
  const auto length = load_le<std::uint64_t>(file.head(length_bytes), 0);
  // length + 8 could wrap; the difference cannot.
  if (length > file.size() - length_bytes)
    throw Error("byte 0: a header of " + std::to_string(length) + " bytes, but only " +
                std::to_string(file.size() - length_bytes) + " follow; the file was cut, or it is no .safetensors");
  if (length > largest_safetensors_header)
    throw Error("byte 0: a header of " + std::to_string(length) + " bytes; at most " +
                std::to_string(largest_safetensors_header) + " are read");
  const std::span<const std::byte> head = file.head(length_bytes + length);
  if (length < 2 || head[length_bytes] != std::byte{'{'})
    throw Error("byte 8: the header does not begin with '{'; this is no .safetensors file");
  const std::string_view json(reinterpret_cast<const char*>(head.data()) + length_bytes,
                              static_cast<std::size_t>(length));
  SafetensorsHeader header = parse_safetensors_json(json, length_bytes);
  header.data_start = length_bytes + length;
  std::vector<SafetensorsEntry>& entries = header.entries;
  for (const SafetensorsEntry& entry : entries) check_size(entry);
  std::stable_sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_order(entries, file.size() - header.data_start);
  return header;
}

TensorFile read_safetensors(std::shared_ptr<const MappedFile> file) {
  SafetensorsHeader header = parse_safetensors(*file);
  TensorFile result;
  result.path = file->path();
  result.kind = FileKind::safetensors;
  result.metadata = std::move(header.metadata);
  for (SafetensorsEntry& entry : header.entries) {
    Tensor& tensor = result.tensors.emplace_back();
    static_cast<TensorHeader&>(tensor) = std::move(entry.header);
    tensor.source = slice(file, header.data_start + entry.begin, entry.end - entry.begin);
  }
  return result;
}

}  // namespace narrow
