// What single characters mean in numbers: blanks around a text, digits of a base.
#pragma once

#include <string_view>

#include "narrow/format/find_format.hpp"

namespace narrow::detail {

constexpr std::string_view trim(std::string_view text) noexcept {
  constexpr std::string_view blanks = " \t\r\n\v\f";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// The value of a digit in a base up to 16, in either letter case; -1 when it is none.
constexpr int digit_value(char c, int base) noexcept {
  int value = base;
  if (c >= '0' && c <= '9') value = c - '0';
  else if (lower(c) >= 'a' && lower(c) <= 'f') value = lower(c) - 'a' + 10;
  return value < base ? value : -1;
}

}  // namespace narrow::detail
