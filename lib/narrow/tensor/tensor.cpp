#include "narrow/tensor/tensor.hpp"

#include <algorithm>
#include <limits>

#include "narrow/base/error.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/limits.hpp"
#include "narrow/tensor/mapped_file.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace {

std::string format_text(const Format& format) {
  for (const NamedFormat& row : format_table)
    if (row.format == format) return std::string(row.name) + " (" + std::to_string(format.width()) + " bits)";
  return "a format of " + std::to_string(format.width()) + " bits";
}

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

// What does not fit is as large as can be: no file has so much.
std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? most : product;
}

// tf32 travels as the 32-bit word of an FP32 value whose low 13 bits do not count.
bool is_tf32_word(const ElementType& type, const Format& format) {
  const bool word = type.may_be_codes() || (type.kind == ElementKind::floating && type.format == "fp32"_fmt);
  return word && type.bits == 32 && format == "tf32"_fmt;
}

}  // namespace

std::uint64_t TensorHeader::elements() const {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::uint64_t product = 1;
  for (const std::uint64_t n : shape) product = times(product, n);
  return product;
}
std::uint64_t TensorHeader::values() const { return times(elements(), static_cast<std::uint64_t>(type.values())); }
std::uint64_t TensorHeader::bytes() const {
  const std::uint64_t count = elements(), bits = static_cast<std::uint64_t>(type.bits);
  return count <= most / bits ? count * bits / 8 : times(count / 8, bits);
}

Tensor with_format(Tensor tensor, const Format& format) {
  ElementType& type = tensor.type;
  if (type.kind == ElementKind::floating && type.format == format) return tensor;
  const bool fits =
      type.may_be_codes() && type.bits >= format.width() && (type.bits < 16 || type.bits == format.width());
  if (!fits && !is_tf32_word(type, format))
    throw Error("tensor " + quote(tensor.name) + ": elements of type " + std::string(type.name) + " are no codes of " +
                format_text(format) + "; " +
                (type.has_format()
                     ? "the file says what they are, leave the format out"
                     : "codes need integers (or V1, V2) of the same width (U8, U16, U32), tf32 those of 32 bits"));
  const ElementType* named = element_type_of(format);
  if (named != nullptr && named->bits == type.bits) type = *named;
  type.kind = ElementKind::floating;
  type.format = format;
  return tensor;
}

Tensor make_tensor(TensorHeader header, std::vector<std::byte> bytes) {
  const Size size = size_of(header.shape, header.type.bits);
  if (size.problem != nullptr || size.bytes != bytes.size())
    throw Error("tensor " + quote(header.name) + ": shape " + shape_text(header.shape) + " of " +
                std::string(header.type.name) + " does not take " + std::to_string(bytes.size()) + " bytes");
  Tensor tensor;
  static_cast<TensorHeader&>(tensor) = std::move(header);
  const std::uint64_t count = bytes.size();
  tensor.source = slice(MappedFile::in_memory(std::move(bytes)), 0, count);
  return tensor;
}

}  // namespace narrow
