#include "narrow/text/text.hpp"

#include "narrow/base/error.hpp"
#include "narrow/text/characters.hpp"
#include "narrow/text/exact_number.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace {

// The integer that digits of a base spell; fits is false once it exceeds the largest code.
struct Digits {
  Code value = 0;
  bool valid = false, fits = true;
};

Digits read_digits(std::string_view text, int base, Code largest) {
  Digits d;
  for (const char c : text) {
    const int value = detail::digit_value(c, base);
    if (value < 0) return {};
    d.valid = true;
    const auto digit = static_cast<Code>(value);
    d.fits = d.fits && digit <= largest && d.value <= (largest - digit) / static_cast<Code>(base);
    if (d.fits) d.value = d.value * static_cast<Code>(base) + digit;
  }
  return d;
}

}  // namespace

Code parse_value(std::string_view text, const Format& f, const Cast& cast, std::uint64_t random) {
  return round_number(parse_number(text), f, cast, random);
}

Code parse_code(std::string_view text, const Format& f) {
  const std::string_view word = detail::trim(text);
  std::string_view digits = word;
  int base = 10;
  if (word.size() > 2 && word[0] == '0' && detail::lower(word[1]) == 'x') base = 16;
  if (word.size() > 2 && word[0] == '0' && detail::lower(word[1]) == 'b') base = 2;
  if (base != 10) digits.remove_prefix(2);

  const Code largest = f.code_mask();
  const Digits read = read_digits(digits, base, largest);
  const std::string range = to_hex_code(0, f) + " to " + to_hex_code(largest, f);
  if (!read.valid) throw Error(quote(word) + " is not a code; accepted: 0x2E66, 0b101, 77, from " + range);
  if (!read.fits)
    throw Error(quote(word) + " is no code of " + std::to_string(f.width()) + " bits; accepted: " + range);
  return read.value;
}

}  // namespace narrow
