// Block formats from their definitions: exact fractions for powers of two, the oracle's rounding for casts, and FP32
// operations spelled out where a system computes in FP32. Shares no code with narrow/scale.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "narrow/scale/block_format.hpp"
#include "support/oracle.hpp"

namespace test {

using narrow::BlockFormat;
using narrow::Format;
using narrow::ScaleRule;
using oracle::Rational;

constexpr float float_inf = std::numeric_limits<float>::infinity();

// Largest e with 2^e <= x and smallest with 2^e >= x, for x = num * 2^exp2 > 0: the place of the highest bit.
inline int exponent_below(const Rational& x) { return static_cast<int>(boost::multiprecision::msb(x.num)) + x.exp2; }
inline int exponent_above(const Rational& x) {
  const int below = exponent_below(x);
  return x == oracle::power_of_two(below) ? below : below + 1;
}

inline Rational largest_value(const Format& f) {
  return oracle::value_of(oracle::largest_magnitude(f, false), f).magnitude;
}
inline float to_float(const Rational& r) {
  return static_cast<float>(std::ldexp(static_cast<double>(r.num) / static_cast<double>(r.den), r.exp2));
}
inline int limit_exponent(int e, int low, int high) { return e < low ? low : e > high ? high : e; }

constexpr int nan_exponent = 128;  // code 255

// The exponent of the E8M0 scale, nan_exponent for NaN. has_nan: the block holds a NaN; amax is that of the others.
inline int oracle_exponent(float amax, bool has_nan, const Format& element, ScaleRule rule) {
  const Rational top = largest_value(element);
  const int emax = exponent_below(top);
  const float top_float = to_float(top);
  const bool drops_nan = rule == ScaleRule::cuda_round_up;
  if (has_nan && !drops_nan) return rule == ScaleRule::deepgemm ? 127 : nan_exponent;
  if (std::isinf(amax)) return rule == ScaleRule::cuda_round_up || rule == ScaleRule::deepgemm ? 127 : nan_exponent;
  if (rule == ScaleRule::deepgemm) {
    const float quotient = (amax < 1e-4f ? 1e-4f : amax) / top_float;
    return limit_exponent(exponent_above(oracle::from_double(static_cast<double>(quotient))), -126, 127);
  }
  if (amax == 0) return -127;
  const Rational exact = oracle::from_double(static_cast<double>(amax));
  const bool subnormal = exponent_below(exact) < -126;
  switch (rule) {
    case ScaleRule::torchao_ceil:  // every subnormal has the exponent field 0, read as -127, and one more for its bits
      return limit_exponent((subnormal ? -126 : exponent_above(exact)) - emax, -127, 127);
    case ScaleRule::ct_mx:  // for FP4 and FP8 E2M1's mantissa, for E2M3 its own
    case ScaleRule::torchao_even: {
      const int e = std::max(exponent_below(exact), -126);
      const int mantissa_bits = rule == ScaleRule::ct_mx && element.exponent_bits != 2 ? 1 : element.mantissa_bits;
      const Rational rounded = exact + oracle::power_of_two(e - mantissa_bits - 1);
      if (!(rounded < oracle::power_of_two(128))) return nan_exponent;
      const int field = rounded < oracle::power_of_two(-126) ? -127 : exponent_below(rounded);
      return limit_exponent(field - emax, -127, 127);
    }
    case ScaleRule::cuda_round_up:
    case ScaleRule::torchao_rceil: {
      const float product = amax * (1.0f / top_float);
      if (product == 0) return -127;
      return limit_exponent(exponent_above(oracle::from_double(static_cast<double>(product))), -127, 127);
    }
    default: return limit_exponent(exponent_below(exact) - emax, -127, 127);
  }
}

// x / 2^e rounded to the element once, saturating. Integers stop evenly at both ends. compressed-tensors adds 0 to the
// quotient and has 2^128, which is Inf, where the code of the scale is NaN.
inline std::uint8_t oracle_element(float x, int exponent, const Format& f, narrow::Cast cast, ScaleRule rule) {
  cast.overflow = narrow::Overflow::saturate;
  const bool ct = rule == ScaleRule::ct_mx;
  if (ct && std::isfinite(x) && (exponent == nan_exponent || std::ldexp(x, -exponent) == 0)) return 0;
  if (exponent == nan_exponent || std::isnan(x)) {
    const bool negative = std::isnan(x) && std::signbit(x);
    return static_cast<std::uint8_t>(oracle::round_nan(negative, 1ull << 63, f, cast));
  }
  if (std::isinf(x)) {
    if (f.twos_complement && !ct)
      return static_cast<std::uint8_t>(oracle::signed_code(oracle::largest_magnitude(f, false), x < 0, f));
    return static_cast<std::uint8_t>(oracle::round_inf(x < 0, f, cast));
  }
  Rational scaled = oracle::from_double(static_cast<double>(x)) * oracle::power_of_two(-exponent);
  if (f.twos_complement && !ct && largest_value(f) < oracle::abs(scaled))
    scaled = scaled.is_negative() ? -largest_value(f) : largest_value(f);
  return static_cast<std::uint8_t>(oracle::round_rational(scaled, std::signbit(x), f, cast));
}

}  // namespace test
