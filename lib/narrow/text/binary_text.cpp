#include "narrow/text/binary_text.hpp"

#include "narrow/base/error.hpp"
#include "narrow/text/characters.hpp"
#include "narrow/text/decimal_layout.hpp"
#include "narrow/text/exact_number.hpp"
#include "narrow/text/exact_sum.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {
namespace {

// 1.fff in hexadecimal, four bits a digit; "..." where 64 bits do not hold all of it.
std::string hex_text(const ExactNumber& x) {
  const int length = x.significand.bit_length();
  const int cut = length > 64 ? length - 64 : 0;
  const auto top = static_cast<std::uint64_t>(x.significand.bits_from(cut));
  std::uint64_t fraction = length == 1 ? 0 : top << (65 - (length - cut));
  std::string text = x.negative ? "-0x1." : "0x1.";
  for (; fraction != 0; fraction <<= 4) text += "0123456789abcdef"[fraction >> 60];
  if (x.significand.has_bits_below(cut)) text += "...";
  return text + "p" + std::to_string(x.power_of_two + length - 1);
}

int parse_power(std::string_view digits, std::string_view whole) {
  constexpr int most = 4000;  // beyond every product of two doubles
  const bool negative = !digits.empty() && digits[0] == '-';
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  int n = 0;
  for (const char c : digits) {
    if (detail::digit_value(c, 10) < 0 || n > most) n = most + 1;
    else n = 10 * n + detail::digit_value(c, 10);
  }
  if (digits.empty() || n > most)
    throw Error(quote(whole) +
                " is not a number; accepted: a power such as 2^-12 or 1.5*2^-12, exponents from -4000 to 4000");
  return negative ? -n : n;
}

}  // namespace

std::string binade_text(int exponent) { return "2^" + std::to_string(exponent); }

std::string binary_text(const ExactNumber& x, std::size_t longest_decimal) {
  constexpr int short_odd = 12;  // bits
  if (const auto special = detail::special_text(x)) return *special;
  ExactSum odd;
  odd.add(x);
  const ExactNumber value = odd.value();
  if (std::abs(value.power_of_two) < 40) {
    const std::string decimal = detail::lay_out(x.negative, detail::exact_decimal(value), -30, 30);
    if (decimal.size() <= longest_decimal) return decimal;
  }
  const int length = value.significand.bit_length();
  const std::string sign = x.negative ? "-" : "";
  if (length == 1) return sign + binade_text(value.power_of_two);
  if (length <= short_odd) return sign + value.significand.to_digits() + "*" + binade_text(value.power_of_two);
  return hex_text(value);
}

std::string binary_text(Code code, const Format& f) {
  constexpr std::size_t any_integer = 20;
  return f.is_integer() ? binary_text(exact_number(code, f), any_integer) : binary_text(exact_number(code, f));
}

ExactNumber parse_binary_number(std::string_view text) {
  const std::string_view whole = detail::trim(text);
  const std::size_t caret = whole.find('^');
  if (caret == std::string_view::npos) return parse_number(whole);
  std::string_view front = detail::trim(whole.substr(0, caret));
  const int power = parse_power(detail::trim(whole.substr(caret + 1)), whole);
  const bool base_two = !front.empty() && front.back() == '2';
  if (base_two) front = detail::trim(front.substr(0, front.size() - 1));
  const bool product = base_two && !front.empty() && front.back() == '*';
  if (product) front.remove_suffix(1);
  const bool sign_only = front == "-" || front == "+";
  if (!base_two || (!product && !front.empty() && !sign_only))
    throw Error(quote(whole) + " is not a number; accepted: decimals, hex floats, 2^-12, 1.5*2^-12, inf, nan");
  ExactNumber x = parse_number(product ? std::string(front) : sign_only ? std::string(front) + "1" : "1");
  x.power_of_two += power;
  return x;
}

}  // namespace narrow
