#include "narrow/tensor/element_type.hpp"

#include "narrow/format/find_format.hpp"

namespace narrow {

namespace {

constexpr ElementType floating(std::string_view name, Format format, std::string_view npy) {
  return {name, ElementKind::floating, format.width(), format, npy};
}
constexpr ElementType integer(std::string_view name, ElementKind kind, int bits, std::string_view npy) {
  return {name, kind, bits, {}, npy};
}

constexpr ElementType table[] = {
    integer("BOOL", ElementKind::boolean, 8, "b1"),
    floating("F4", "e2m1"_fmt, "u1"),
    floating("F6_E2M3", "e2m3"_fmt, "u1"),
    floating("F6_E3M2", "e3m2"_fmt, "u1"),
    integer("U8", ElementKind::unsigned_integer, 8, "u1"),
    integer("I8", ElementKind::signed_integer, 8, "i1"),
    floating("F8_E5M2", "e5m2"_fmt, "u1"),
    floating("F8_E4M3", "e4m3"_fmt, "u1"),
    floating("F8_E8M0", "e8m0"_fmt, "u1"),
    floating("F8_E4M3FNUZ", "e4m3fnuz"_fmt, "u1"),
    floating("F8_E5M2FNUZ", "e5m2fnuz"_fmt, "u1"),
    integer("I16", ElementKind::signed_integer, 16, "i2"),
    integer("U16", ElementKind::unsigned_integer, 16, "u2"),
    floating("F16", "fp16"_fmt, "f2"),
    floating("BF16", "bf16"_fmt, "u2"),
    integer("I32", ElementKind::signed_integer, 32, "i4"),
    integer("U32", ElementKind::unsigned_integer, 32, "u4"),
    floating("F32", "fp32"_fmt, "f4"),
    {"C64", ElementKind::complex, 64, "fp32"_fmt, "c8"},
    floating("F64", "fp64"_fmt, "f8"),
    integer("I64", ElementKind::signed_integer, 64, "i8"),
    integer("U64", ElementKind::unsigned_integer, 64, "u8"),
};

}  // namespace

std::span<const ElementType> element_types() { return table; }

const ElementType* find_element_type(std::string_view name) {
  for (const ElementType& type : table)
    if (type.name == name) return &type;
  return nullptr;
}

const ElementType* find_opaque_type(std::string_view npy) {
  static constexpr ElementType types[] = {integer("V1", ElementKind::opaque, 8, ""),
                                          integer("V2", ElementKind::opaque, 16, ""),
                                          integer("f1", ElementKind::opaque, 8, "")};
  for (const ElementType& type : types)
    if (type.name == npy) return &type;
  return nullptr;
}

const ElementType* element_type_of(const Format& format) {
  if (format == "int8"_fmt) return find_element_type("I8");
  if (format == "uint8"_fmt) return find_element_type("U8");
  for (const ElementType& type : table)
    if (type.kind == ElementKind::floating && type.format == format) return &type;
  return nullptr;
}

ResultType type_of_codes(const Format& format, std::uint64_t elements) {
  if (format == "tf32"_fmt) return {*find_element_type("F32")};
  const ElementType* type = element_type_of(format);
  if (type != nullptr && (type->bits % 8 == 0 || elements % 8 * static_cast<std::uint64_t>(type->bits) % 8 == 0))
    return {*type};
  const int width = format.width();
  return {*find_element_type(width <= 8 ? "U8" : width <= 16 ? "U16" : width <= 32 ? "U32" : "U64"), false};
}

}  // namespace narrow
