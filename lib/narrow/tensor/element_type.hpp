// What an element of a tensor file is: a code of a format, an integer, a truth value. The table is that of
// .safetensors.
//
//   for (const ElementType& type : element_types()) std::printf("%.*s\n", int(type.name.size()), type.name.data());
#pragma once

#include <span>
#include <string_view>

#include "narrow/format/format.hpp"

namespace narrow {

// opaque: bytes without a meaning (numpy's V1 and V2), which a format gives them.
enum class ElementKind : std::uint8_t { floating, complex, signed_integer, unsigned_integer, boolean, opaque };

// A row of the table.
struct ElementType {
  std::string_view name;  // as .safetensors spells it: "F8_E4M3", "I32"
  ElementKind kind = ElementKind::floating;
  int bits = 0;          // of one element; a complex element is two values of half as many
  Format format = {};    // floating and complex: what a code (of half an element) means
  std::string_view npy;  // descr in .npy without the byte order ("f4", "u2"); codes travel as integers

  constexpr bool has_format() const noexcept { return kind == ElementKind::floating || kind == ElementKind::complex; }
  constexpr bool may_be_codes() const noexcept {
    return kind == ElementKind::signed_integer || kind == ElementKind::unsigned_integer || kind == ElementKind::opaque;
  }
  constexpr int values() const noexcept { return kind == ElementKind::complex ? 2 : 1; }
};

// The table, and its rows by name.
std::span<const ElementType> element_types();
const ElementType* find_element_type(std::string_view name);  // nullptr when there is none
// What numpy.save writes for the types of ml_dtypes, whose names it does not know: "V1" for those of one byte ("f1" for
// float8_e5m2), "V2" for bfloat16. nullptr for other words.
const ElementType* find_opaque_type(std::string_view npy);
// The floating type of these codes (and I8 for int8); nullptr when there is none.
const ElementType* element_type_of(const Format& format);

// Whether a type says what the codes of a result mean, or they are plain integers.
struct ResultType {
  ElementType type;
  bool names_format = true;
};
// The type that holds `elements` codes of a format. tf32 is F32: its word is that of the value, the low bits zero.
// Sub-byte types whose elements do not fill whole bytes (which .safetensors forbids) become U8.
ResultType type_of_codes(const Format& format, std::uint64_t elements);

}  // namespace narrow
