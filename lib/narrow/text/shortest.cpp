// The fewest decimal digits that still name a code, and among those the ones closest to its value.
#include <cmath>

#include "narrow/text/decimal_layout.hpp"
#include "narrow/text/exact_number.hpp"
#include "narrow/text/text.hpp"

namespace narrow {

namespace {

using detail::Decimal;

ExactNumber value_of(bool negative, const Decimal& d) {
  ExactNumber x;
  x.negative = negative;
  for (const char c : d.digits) x.significand.multiply_add(10, static_cast<std::uint32_t>(c - '0'));
  x.power_of_ten = d.exponent - static_cast<int>(d.digits.size()) + 1;
  return x;
}

// One more in the last digit: 9.99 -> 10.0, written 1.
Decimal successor(Decimal d) {
  while (!d.digits.empty() && d.digits.back() == '9') d.digits.pop_back();
  if (d.digits.empty()) return {"1", d.exponent + 1};
  ++d.digits.back();
  return d;
}

// Which of `below` (the first n digits) and its successor is closer; a tie goes to the even digit.
bool successor_is_closer(const Decimal& all, std::size_t n) {
  if (all.digits[n] != '5') return all.digits[n] > '5';
  const bool tie = all.digits.size() == n + 1;
  return !tie || (all.digits[n - 1] - '0') % 2 == 1;
}

// The values that nearest_even reads as one code form an interval around its value, so when any decimal of n digits is
// in it, then one of the two around the value is. Asking the reader itself makes every end of the interval right: the
// binade seam, the largest value, formats without zero. Only where values saturate the interval has no end: there a
// decimal must also be within half a quantum, or int8 would write -128 as -200.
Decimal shortest_decimal(Code code, const Format& f, const ExactNumber& x) {
  const Decimal all = detail::exact_decimal(x);
  const auto reads_back = [&](const Decimal& d) {
    const ExactNumber candidate = value_of(x.negative, d);
    return round_number(candidate, f) == code && std::fabs(ulp_error(candidate, code, f)) <= 0.5;
  };
  for (std::size_t n = 1; n < all.digits.size(); ++n) {
    const Decimal below{all.digits.substr(0, n), all.exponent};
    const Decimal above = successor(below);
    const bool up = successor_is_closer(all, n);
    if (reads_back(up ? above : below)) return up ? above : below;
    if (reads_back(up ? below : above)) return up ? below : above;
  }
  return all;
}

}  // namespace

std::string to_shortest(Code code, const Format& f) {
  code &= f.code_mask();
  const ExactNumber x = exact_number(code, f);
  if (const auto special = detail::special_text(x)) return *special;
  Decimal d = shortest_decimal(code, f, x);
  d.digits.erase(d.digits.find_last_not_of('0') + 1);
  constexpr int least_plain = -4, most_plain = 15;  // 0.0001 to 9999999999999998, as Python and %g write them
  return detail::lay_out(x.negative, d, least_plain, most_plain);
}

}  // namespace narrow
