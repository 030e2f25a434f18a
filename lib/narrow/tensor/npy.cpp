#include "narrow/tensor/npy.hpp"

#include <algorithm>

#include "narrow/base/error.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/limits.hpp"
#include "narrow/tensor/little_endian.hpp"
#include "narrow/tensor/npy_dict.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace {

// Magic, two bytes of version, two or four of length.
constexpr std::size_t version_at = 6, length_at = 8, longest_prefix = 12;

// '<f4': byte order, kind, bytes. Codes without a numpy type come as unsigned integers, so the first row of a spelling
// that is no code is the one: u1 is U8 and not F4.
const ElementType* find_npy_type(std::string_view word) {
  for (const ElementType& type : element_types())
    if (type.npy == word && (!type.has_format() || word[0] == 'f' || word[0] == 'c')) return &type;
  return find_opaque_type(word);
}

[[noreturn]] void refuse(const std::string& descr) {
  const std::string what = "type " + quote(descr) + " is not read; ";
  const char kind = descr.size() > 1 ? descr[1] : ' ';
  if (kind == 'O') throw Error(what + "objects are pickled Python code: save numbers, not objects");
  if (kind == 'V')
    throw Error(what + "V1 and V2 are (types of ml_dtypes), or integers: numpy.save(f, a.view(numpy.uint8))");
  throw Error(what + "read are f2 f4 f8 c8, i1 i2 i4 i8, u1 u2 u4 u8 and b1, with < or > before (| for one byte)");
}

void set_type(NpyHeader& header, const std::string& descr) {
  const ElementType* type = descr.size() == 3 ? find_npy_type(std::string_view(descr).substr(1)) : nullptr;
  if (type == nullptr) refuse(descr);
  const char order = descr[0];
  const bool may_have_no_order = type->bits == 8 || type->kind == ElementKind::opaque;
  if (order != '<' && order != '>' && !(order == '|' && may_have_no_order)) refuse(descr);
  header.type = *type;
  header.big_endian = order == '>' && type->bits > 8;
}

std::string_view characters(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string stem(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  if (name.size() > 4 && name.ends_with(".npy")) name.resize(name.size() - 4);
  return is_utf8(name) ? name : "array";
}

}  // namespace

const std::size_t longest_npy_beginning = longest_prefix + largest_npy_header;

NpyHeader parse_npy(std::span<const std::byte> beginning, std::uint64_t file_bytes) {
  if (!characters(beginning).starts_with(npy_magic))
    throw Error("byte 0: no .npy file, it does not begin with \\x93NUMPY");
  if (beginning.size() < length_at + 2)
    throw Error("the file ends at byte " + std::to_string(file_bytes) + ", inside the .npy header");
  const int major = std::to_integer<int>(beginning[version_at]);
  if (major < 1 || major > 3 || beginning[version_at + 1] != std::byte{0})
    throw Error("byte 6: .npy version " + std::to_string(major) + "." +
                std::to_string(std::to_integer<int>(beginning[version_at + 1])) + "; 1.0, 2.0 and 3.0 are read");
  const std::uint64_t prefix = length_at + (major == 1 ? 2 : 4);
  if (beginning.size() < prefix)
    throw Error("the file ends at byte " + std::to_string(file_bytes) + ", inside the .npy header");
  const std::uint64_t length =
      major == 1 ? load_le<std::uint16_t>(beginning, length_at) : load_le<std::uint32_t>(beginning, length_at);
  if (length > file_bytes - prefix)
    throw Error("byte 8: a header of " + std::to_string(length) + " bytes, but only " +
                std::to_string(file_bytes - prefix) + " follow; the file was cut");
  if (length > largest_npy_header)
    throw Error("byte 8: a header of " + std::to_string(length) + " bytes; at most " +
                std::to_string(largest_npy_header) + " are read");
  const NpyDict dict = parse_npy_dict(characters(beginning.subspan(prefix, length)), prefix);
  NpyHeader header;
  header.shape = dict.shape;
  header.column_major = dict.fortran_order;
  set_type(header, dict.descr);
  header.data_start = prefix + length;
  const Size size = size_of(header.shape, header.type.bits);
  const std::string what = "shape " + shape_text(header.shape) + " of " + quote(dict.descr);
  if (size.problem != nullptr) throw Error(what + " " + size.problem);
  header.data_bytes = file_bytes - header.data_start;
  if (size.bytes != header.data_bytes)
    throw Error(what + " takes " + std::to_string(size.bytes) + " bytes, but " + std::to_string(header.data_bytes) +
                " follow the header" +
                (size.bytes > header.data_bytes ? "; the file was cut" : "; it holds more than one array"));
  return header;
}

std::string npy_header_text(const TensorHeader& header, bool column_major) {
  const std::string_view type = header.type.npy;
  if (type.empty())
    throw Error("tensor " + quote(header.name) + ": .npy has no type for " + std::string(header.type.name));
  std::string dict = std::string("{'descr': '") + (type.back() == '1' ? '|' : '<') + std::string(type) +
                     "', 'fortran_order': " + (column_major ? "True" : "False") + ", 'shape': (";
  for (std::size_t i = 0; i < header.shape.size(); ++i)
    dict += (i == 0 ? "" : " ") + std::to_string(header.shape[i]) + ",";
  if (header.shape.size() > 1) dict.pop_back();
  dict += "), }";
  constexpr std::size_t prefix = 10, alignment = 64;
  const std::size_t whole = (prefix + dict.size() + 1 + alignment - 1) / alignment * alignment;
  dict.resize(whole - prefix - 1, ' ');
  dict += '\n';
  std::string text(npy_magic);
  text += {'\x01', '\0', static_cast<char>(dict.size() & 0xFF), static_cast<char>(dict.size() >> 8)};
  return text + dict;
}

Tensor npy_tensor(const NpyHeader& header, std::string name, std::shared_ptr<const ByteSource> data) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.type = header.type;
  tensor.shape = header.shape;
  tensor.column_major = header.column_major;
  tensor.big_endian = header.big_endian;
  tensor.source = std::move(data);
  return tensor;
}

TensorFile read_npy(std::shared_ptr<const MappedFile> file) {
  const NpyHeader header = parse_npy(file->head(longest_npy_beginning), file->size());
  TensorFile result;
  result.path = file->path();
  result.kind = FileKind::npy;
  result.tensors.push_back(npy_tensor(header, stem(file->path()), slice(file, header.data_start, header.data_bytes)));
  return result;
}

}  // namespace narrow
