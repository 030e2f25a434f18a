#include "narrow/text/decimal_layout.hpp"
#include "narrow/text/exact_number.hpp"

#include <cstdlib>

namespace narrow::detail {

Decimal exact_decimal(const ExactNumber& x) {
  // x = s * 2^e. For e < 0 that is s * 5^-e / 10^-e: the digits of an integer, and -e places after the point.
  BigUnsigned integer = x.significand;
  if (x.power_of_two >= 0) integer <<= x.power_of_two;
  else integer.multiply_by_power_of_five(-x.power_of_two);
  Decimal d{integer.to_digits(), 0};
  d.exponent = static_cast<int>(d.digits.size()) - 1 + (x.power_of_two < 0 ? x.power_of_two : 0);
  d.digits.erase(d.digits.find_last_not_of('0') + 1);
  return d;
}

std::string lay_out(bool negative, const Decimal& decimal, int least, int most) {
  const std::string sign = negative ? "-" : "";
  const int exponent = decimal.exponent;
  std::string digits = decimal.digits;
  if (exponent < least || exponent > most) {
    if (digits.size() > 1) digits.insert(1, ".");
    const std::string power = std::to_string(std::abs(exponent));
    return sign + digits + (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0');
  return sign + digits.insert(whole, ".");
}

std::optional<std::string> special_text(const ExactNumber& x) {
  const std::string sign = x.negative ? "-" : "";
  if (x.kind == NumberKind::nan) return "nan";
  if (x.kind == NumberKind::inf) return sign + "inf";
  if (x.is_zero()) return sign + "0";
  return {};
}

}  // namespace narrow::detail
