// From a text to its exact value: the grammar of numbers, and what keeps hostile texts cheap.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "narrow/base/error.hpp"
#include "narrow/text/characters.hpp"
#include "narrow/text/exact_number.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace {

// Further digits only say "and a little more". Every value where a rounding decision can change is a multiple of
// 2^-1138 (the quantum 2^-1074 of FP64 and 64 random bits below it) with at most 117 significant bits, and so has at
// most log10(2^117 * 5^1138) < 832 significant digits: none of them lies strictly between 1200 digits and their
// successor.
constexpr std::int64_t kept_digits = 1200;

// Numbers beyond 10^2000 or below 10^-2000 behave alike in every format.
constexpr int decimal_range = 2000;
constexpr int binary_range = 8000;       // more than log2(10^2000) = 6643.9 ...
constexpr int safe_binary_range = 6600;  // ... and less: between the two an exact comparison decides

[[noreturn]] void fail(std::string_view text) {
  throw Error(quote(text) + " is not a number; accepted: decimals (0.1, -1e-7), hex floats (0x1.8p-3), inf, nan");
}

// ReadDigits with at most one point, from the front of a text: the first kept_digits of them from the first nonzero one.
struct ReadDigits {
  BigUnsigned significand;
  std::int64_t dropped = 0;   // digits of the integer part that are not in significand, less those of the fraction
  std::int64_t kept = 0;      // digits in significand
  bool sticky = false;        // a digit that was dropped is not 0
  bool any = false, point = false;
};

ReadDigits take_digits(std::string_view& text, int base) {
  ReadDigits d;
  std::uint32_t chunk = 0, factor = 1;  // a few digits together: one long multiplication for each chunk
  const auto flush = [&] {
    d.significand.multiply_add(factor, chunk);
    chunk = 0;
    factor = 1;
  };
  std::size_t i = 0;
  for (; i < text.size(); ++i) {
    if (text[i] == '.' && !d.point) {
      d.point = true;
      continue;
    }
    const int digit = detail::digit_value(text[i], base);
    if (digit < 0) break;
    d.any = true;
    if (d.point) --d.dropped;
    if (d.kept == 0 && digit == 0) continue;  // a leading zero
    if (d.kept == kept_digits) {
      ++d.dropped;
      d.sticky = d.sticky || digit != 0;
      continue;
    }
    ++d.kept;
    chunk = chunk * static_cast<std::uint32_t>(base) + static_cast<std::uint32_t>(digit);
    factor *= static_cast<std::uint32_t>(base);
    if (factor >= 100000000) flush();
  }
  flush();
  text.remove_prefix(i);
  return d;
}

// "e-12" or "p+3" from the front; 0 when there is none. Saturates far beyond what the length of a text can undo.
std::optional<std::int64_t> take_exponent(std::string_view& text, char letter) {
  if (text.empty() || detail::lower(text[0]) != letter) return 0;
  text.remove_prefix(1);
  bool negative = false;
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text.empty() || detail::digit_value(text[0], 10) < 0) return {};
  constexpr std::int64_t beyond = 100000000000000000;  // ten times it still fits
  std::int64_t exponent = 0;
  while (!text.empty() && detail::digit_value(text[0], 10) >= 0) {
    if (exponent < beyond) exponent = exponent * 10 + detail::digit_value(text[0], 10);
    text.remove_prefix(1);
  }
  exponent = std::min(exponent, beyond);
  return negative ? -exponent : exponent;
}

ExactNumber power_of_ten(int n) {
  ExactNumber x;
  x.significand = BigUnsigned(1);
  x.power_of_ten = n;
  return x;
}

// 10^2000 and a little more for everything from there on, zero and a little more below 10^-2000.
ExactNumber far_away(bool huge) {
  ExactNumber x = power_of_ten(huge ? decimal_range : -decimal_range);
  if (!huge) x.significand = BigUnsigned();
  x.sticky = true;
  return x;
}

// digits * base^exponent, where one digit of base 16 is four powers of two.
ExactNumber finite_number(ReadDigits&& digits, std::int64_t exponent, bool hex) {
  ExactNumber x;
  if (digits.kept == 0) return x;
  exponent += digits.dropped * (hex ? 4 : 1);
  const std::int64_t lowest_top = exponent + (digits.kept - 1) * (hex ? 4 : 1);  // value >= base^lowest_top
  const std::int64_t range = hex ? binary_range : decimal_range;
  if (lowest_top >= range) return far_away(true);
  if (lowest_top < -range) return far_away(false);
  x.significand = std::move(digits.significand);
  x.sticky = digits.sticky;
  (hex ? x.power_of_two : x.power_of_ten) = static_cast<int>(exponent);
  if (hex && lowest_top > safe_binary_range && compare(x, power_of_ten(decimal_range)) >= 0) return far_away(true);
  if (hex && lowest_top < -safe_binary_range && compare(x, power_of_ten(-decimal_range)) < 0) return far_away(false);
  return x;
}

}  // namespace

ExactNumber parse_number(std::string_view text) {
  const std::string_view whole = detail::trim(text);
  std::string_view rest = whole;
  const bool negative = !rest.empty() && rest[0] == '-';
  if (!rest.empty() && (rest[0] == '-' || rest[0] == '+')) rest.remove_prefix(1);

  ExactNumber x;
  if (detail::same_word(rest, "nan")) {
    x.kind = NumberKind::nan;
  } else if (detail::same_word(rest, "inf") || detail::same_word(rest, "infinity")) {
    x.kind = NumberKind::inf;
  } else {
    const bool hex = rest.size() >= 2 && rest[0] == '0' && detail::lower(rest[1]) == 'x';
    if (hex) rest.remove_prefix(2);
    ReadDigits digits = take_digits(rest, hex ? 16 : 10);
    if (hex && digits.any && !digits.point && rest.empty())
      throw Error(quote(whole) + " is a code, not a number: a code needs its format (--from F, parse_code);" +
                  " as a hex float it has a 'p' (0x1Fp0)");
    const std::optional<std::int64_t> exponent = take_exponent(rest, hex ? 'p' : 'e');
    if (!digits.any || !exponent || !rest.empty()) fail(whole);
    x = finite_number(std::move(digits), *exponent, hex);
  }
  x.negative = negative;
  return x;
}

}  // namespace narrow
