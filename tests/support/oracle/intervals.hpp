// For every code the floats that give it: first and last in the order of their magnitudes, from exact middles and
// neighbours. A sweep over all 2^32 floats then needs comparisons only.
#pragma once

#include <cmath>
#include <stdexcept>
#include <vector>

#include "support/oracle.hpp"

namespace oracle {

struct Interval {
  std::uint32_t first, last;  // bits of the magnitude: without the sign
  Code code;
};

inline constexpr std::uint32_t float_inf = 0x7F800000;

// The smallest magnitude whose value is at least t (above t when strictly); Inf when no finite one is. From `low` on.
inline std::uint32_t first_float(const Rational& t, bool strictly, std::uint32_t low) {
  const double exact = std::ldexp(static_cast<double>(t.num), t.exp2);
  if (!(from_double(exact) == t)) throw std::logic_error("oracle: a border that double does not hold");
  std::uint32_t high = float_inf;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    const double x = std::bit_cast<float>(middle);
    if (x > exact || (x == exact && !strictly)) high = middle;
    else low = middle + 1;
  }
  return low;
}

// Where, between a value and the next multiple of the quantum, the results change from the lower to the upper one.
struct Border {
  Rational at;
  bool upper_from_above;  // `at` itself still gives the lower value
};

// even: the lower one is an even multiple of the quantum.
inline Border border(const Rational& lower, const Rational& upper, bool even, bool negative, Rounding rounding) {
  const Rational middle = (lower + upper) * power_of_two(-1);
  switch (rounding) {
    case Rounding::nearest_even: return {middle, even};
    case Rounding::nearest_away: return {middle, false};
    case Rounding::nearest_to_zero: return {middle, true};
    case Rounding::toward_zero: return {upper, false};
    case Rounding::up: return negative ? Border{upper, false} : Border{lower, true};
    case Rounding::down: return negative ? Border{lower, true} : Border{upper, false};
    case Rounding::to_odd: return even ? Border{lower, true} : Border{upper, false};
    case Rounding::stochastic: break;  // no intervals
  }
  return {upper, false};
}

// All magnitudes 0 .. 0x7FFFFFFF of one sign, in order, without gaps. For formats whose values are floats; default NaN
// and subnormal policies.
inline std::vector<Interval> intervals(const Format& f, const Cast& cast, bool negative) {
  std::vector<Interval> list;
  const Code nan = round_nan(negative, 0, f, cast);
  const bool below = !f.has_sign && negative;  // what rounds to zero is all that has a code
  if (below && !f.has_zero) return {{0, 0, zero_code(true, f)}, {1, 0x7FFFFFFF, nan}};
  std::uint32_t first = 0;
  const auto close = [&](std::uint32_t end, Code code) {  // [first, end) gives code
    if (end > first) list.push_back({first, end - 1, code});
    first = end;
  };
  const Code largest = below ? 0 : largest_magnitude(f, negative);
  for (Code m = 0; m <= largest; ++m) {
    const Code code = m == 0 ? zero_code(negative, f) : signed_code(m, negative, f);
    const Rational lower = value_of(code, f).magnitude;
    // The next multiple of the quantum; above the largest value it is not a value of the format, but still the border's
    // end.
    const bool lowest_binade = f.exponent_bits == 0 || m >> f.mantissa_bits == 0;
    const int exponent = lowest_binade ? min_exponent(f) : static_cast<int>(m >> f.mantissa_bits) - f.bias;
    const Rational upper = lower + power_of_two(exponent - f.mantissa_bits);
    const Code mantissa = m & ones(f.mantissa_bits);
    const bool implicit_one = f.exponent_bits != 0 && (m >> f.mantissa_bits != 0 || !f.has_zero);
    const bool by_code = f.has_zero && f.specials != Specials::none;  // P3109's powers of two
    const bool even = f.mantissa_bits > 0 ? mantissa % 2 == 0 : by_code ? m % 2 == 0 : !implicit_one;
    const Border b = border(lower, upper, even, negative, cast.rounding);
    close(first_float(b.at, b.upper_from_above, first), code);
  }
  close(float_inf, below ? below_zero(f, cast) : overflow_code(negative, f, cast));
  close(float_inf + 1, round_inf(negative, f, cast));
  close(0x80000000u, nan);
  return list;
}

}  // namespace oracle
