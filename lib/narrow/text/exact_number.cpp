#include "narrow/text/exact_number.hpp"

#include <algorithm>
#include <bit>

#include "narrow/round/round_to.hpp"

namespace narrow {

namespace {

std::strong_ordering compare_magnitudes(const ExactNumber& a, const ExactNumber& b) {
  if (a.kind == NumberKind::inf || b.kind == NumberKind::inf)
    return (a.kind == NumberKind::inf) <=> (b.kind == NumberKind::inf);
  const detail::Aligned aligned = detail::align(a, b);
  const std::strong_ordering order = aligned.a <=> aligned.b;
  return order != 0 ? order : a.sticky <=> b.sticky;
}

// The quotient bit by bit, as on paper. Divisor and dividend are brought to 1 <= dividend / divisor < 2 first, so the
// first of the 128 steps gives a one:
//   128 times: bits = 2 * bits + (dividend >= divisor); dividend = 2 * (dividend - divisor or itself)
// and what is left at the end is exactly what 128 bits do not hold.
Exact leading_quotient(BigUnsigned dividend, BigUnsigned divisor) {
  int top = dividend.bit_length() - divisor.bit_length();
  if (top >= 0) divisor <<= top;
  else dividend <<= -top;
  if (dividend < divisor) {
    dividend <<= 1;
    --top;
  }
  U128 bits = 0;
  for (int i = 0; i < 128; ++i) {
    bits <<= 1;
    if (dividend >= divisor) {
      dividend -= divisor;
      bits |= 1;
    }
    dividend <<= 1;
  }
  return {false, bits, top - 127, !dividend.is_zero()};
}

Exact leading_part(const BigUnsigned& x) {
  const int cut = std::max(x.bit_length() - 128, 0);
  return {false, x.bits_from(cut), cut, x.has_bits_below(cut)};
}

}  // namespace

// 10^n = 5^n * 2^n, so a decimal is an integer times or over a power of five, and the rest is the exponent. The tail of
// a cut text stays below the 128 bits: no multiple of 2^-1661 with 128 significant bits has more than 1200 digits, so
// none lies between what was kept and the text. Smaller numbers are below every decision of a format (2^-1074 / 2^64).
Exact leading_bits(const ExactNumber& x) {
  Exact e;
  if (x.significand.is_zero()) {
    e = {};
  } else if (x.power_of_ten >= 0) {
    e = leading_part(BigUnsigned(x.significand).multiply_by_power_of_five(x.power_of_ten));
  } else {
    e = leading_quotient(x.significand, BigUnsigned(1).multiply_by_power_of_five(-x.power_of_ten));
  }
  e.negative = x.negative;
  e.exponent += x.power_of_two + x.power_of_ten;
  e.sticky = e.sticky || x.sticky;
  return e;
}

ExactNumber exact_number(Code code, const Format& f) {
  const Unpacked u = unpack(code, f);
  ExactNumber x;
  x.negative = u.negative;
  if (u.is_nan()) x.kind = NumberKind::nan;
  if (u.is_inf()) x.kind = NumberKind::inf;
  x.significand = BigUnsigned(u.significand);
  x.power_of_two = u.exponent;
  return x;
}

detail::Aligned detail::align(const ExactNumber& a, const ExactNumber& b) {
  // Both times 5^-tens and 2^-twos, whose exponents are the smaller ones, so that nothing is divided.
  const int tens = std::min(a.power_of_ten, b.power_of_ten);
  const int twos = std::min(a.power_of_two + a.power_of_ten, b.power_of_two + b.power_of_ten);
  const auto scaled = [&](const ExactNumber& x) {
    BigUnsigned integer = x.significand;
    integer.multiply_by_power_of_five(x.power_of_ten - tens) <<= x.power_of_two + x.power_of_ten - twos;
    return integer;
  };
  return {scaled(a), scaled(b), twos - tens, tens};
}

std::partial_ordering compare(const ExactNumber& a, const ExactNumber& b) {
  if (a.kind == NumberKind::nan || b.kind == NumberKind::nan) return std::partial_ordering::unordered;
  if (a.is_zero() && b.is_zero()) return std::partial_ordering::equivalent;
  if (a.negative != b.negative) return a.negative ? std::partial_ordering::less : std::partial_ordering::greater;
  return a.negative ? compare_magnitudes(b, a) : compare_magnitudes(a, b);
}

Code round_number(const ExactNumber& x, const Format& f, const Cast& cast, std::uint64_t random) {
  constexpr std::uint64_t quiet_payload = 1ull << 51;
  if (x.kind == NumberKind::nan) return detail::nan_to(x.negative, quiet_payload, f, cast.nan);
  if (x.kind == NumberKind::inf) return detail::infinity_to(x.negative, f, cast);
  const Exact exact = leading_bits(x);
  if (!cast.through_fp32) return round_exact(exact, f, cast, random);
  const Code narrowed = round_exact(exact, "fp32"_fmt);
  return encode(std::bit_cast<float>(static_cast<std::uint32_t>(narrowed)), f, cast, random);
}

}  // namespace narrow
