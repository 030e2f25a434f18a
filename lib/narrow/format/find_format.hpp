// From a name to a format: the table, its aliases, and any "eXmY" with an ending for its specials ("ieee", or nothing
// where no row has that name; "fn", "fnuz", "f") and a bias of its own before it: "e4m3b9fn"; and IEEE P3109's
// "binary8p3se" (8 bits, precision 3, signed or unsigned, extended or finite; "binary8p3" is that). Letter case does
// not matter.
//
//   static_assert(find_format("bfloat16") == "bf16"_fmt);
//   static_assert(!find_format("fp8"));  // names no format: e4m3 or e5m2?
#pragma once

#include <optional>
#include <string_view>

#include "narrow/format/format_table.hpp"

namespace narrow {

namespace detail {

constexpr char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

constexpr bool same_word(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (lower(a[i]) != lower(b[i])) return false;
  return true;
}

constexpr bool has_word(std::string_view words, std::string_view word) noexcept {
  while (!words.empty()) {
    const std::size_t end = words.find(' ') < words.size() ? words.find(' ') : words.size();
    if (same_word(words.substr(0, end), word)) return true;
    words.remove_prefix(end < words.size() ? end + 1 : end);
  }
  return false;
}

constexpr bool is_called(const NamedFormat& row, std::string_view name) noexcept {
  return same_word(row.name, name) || has_word(row.aliases, name);
}

// Takes up to so many digits off the front; -1 when there is none, or when a zero leads.
constexpr int take_number(std::string_view& text, int most = 2) noexcept {
  const bool leading_zero = text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
  int value = 0, digits = 0;
  while (digits < most && !text.empty() && text[0] >= '0' && text[0] <= '9') {
    value = value * 10 + (text[0] - '0');
    text.remove_prefix(1);
    ++digits;
  }
  return digits == 0 || leading_zero ? -1 : value;
}

constexpr std::optional<Format> parse_exmy(std::string_view name) noexcept {
  const std::string_view whole = name;
  if (name.empty() || lower(name[0]) != 'e') return {};
  name.remove_prefix(1);
  const int exponent_bits = take_number(name);
  if (exponent_bits < 1 || name.empty() || lower(name[0]) != 'm') return {};
  name.remove_prefix(1);
  const int mantissa_bits = take_number(name);
  if (mantissa_bits < 0 || exponent_bits > 11 || mantissa_bits > 52) return {};
  const std::string_view bare = whole.substr(0, whole.size() - name.size());
  int bias = -1;
  if (!name.empty() && lower(name[0]) == 'b') {
    name.remove_prefix(1);
    bias = take_number(name, 4);
    if (bias < 0) return {};
  }
  const bool has_nan = exponent_bits >= 2 && mantissa_bits >= 1;
  const NamedFormat* row = nullptr;  // what the bare name means with another bias
  for (const NamedFormat& other : format_table)
    if (bias >= 0 && name.empty() && is_called(other, bare)) row = &other;
  Format f;
  if (row != nullptr) f = row->format;
  else if ((name.empty() || same_word(name, "ieee")) && has_nan) f = ieee(exponent_bits, mantissa_bits);
  else if (same_word(name, "fn") && has_nan) f = finite(exponent_bits, mantissa_bits, Specials::nan_only);
  else if (same_word(name, "fnuz") && has_nan) f = negative_zero_is_nan(exponent_bits, mantissa_bits);
  else if (same_word(name, "f")) f = finite(exponent_bits, mantissa_bits, Specials::none);
  else return {};
  if (bias >= 0) f.bias = bias;
  return f.is_valid() ? std::optional<Format>(f) : std::nullopt;
}

constexpr std::optional<Format> parse_p3109(std::string_view name) noexcept {
  if (name.size() < 9 || !same_word(name.substr(0, 6), "binary")) return {};
  name.remove_prefix(6);
  const int bits = take_number(name);
  if (bits < 3 || name.empty() || lower(name[0]) != 'p') return {};
  name.remove_prefix(1);
  const int precision = take_number(name);
  const std::string_view ending = name.empty() ? "se" : name;
  if (ending.size() != 2 || !has_word("se sf ue uf", ending)) return {};
  const bool has_sign = lower(ending[0]) == 's';
  if (precision < 1 || precision > bits - (has_sign ? 1 : 0)) return {};
  const Format f = p3109(bits, precision, has_sign, lower(ending[1]) == 'e');
  return f.is_valid() ? std::optional<Format>(f) : std::nullopt;
}

}  // namespace detail

// Where the formats that are named binary8p3se are defined.
inline constexpr std::string_view p3109_source = "IEEE P3109 draft 4.0";

// The row that a name or alias stands for; nullptr when there is none.
constexpr const NamedFormat* find_row(std::string_view name) noexcept {
  for (const NamedFormat& row : format_table)
    if (detail::is_called(row, name)) return &row;
  return nullptr;
}

// Empty when there is none.
constexpr std::optional<Format> find_format(std::string_view name) noexcept {
  for (const NamedFormat& row : format_table)
    if (detail::is_called(row, name)) return row.format;
  if (const std::optional<Format> f = detail::parse_exmy(name)) return f;
  return detail::parse_p3109(name);
}

// "fp16"_fmt at compile time; an unknown name does not compile.
consteval Format operator""_fmt(const char* name, std::size_t size) {
  return find_format(std::string_view(name, size)).value();
}

}  // namespace narrow
