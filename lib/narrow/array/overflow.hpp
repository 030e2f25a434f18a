// Does a value overflow? Whether its rounding, with no upper limit on the exponent, is beyond the largest finite value.
#pragma once

#include "narrow/round/round_to.hpp"

namespace narrow {

// x must be finite. Independent of what the cast makes of the overflow: an inward mode that stays at the largest value
// has overflowed as well. Negative values in a format without sign are no overflow.
template <Carrier T>
constexpr bool overflows(T x, const Format& f, const Cast& cast = {}, std::uint64_t random = 0) noexcept {
  auto value = static_cast<double>(x);
  if (sizeof(T) == 8 && cast.through_fp32) value = round_to(value, detail::carrier_format<float>);
  if (value - value != 0) return true;  // beyond FP32 on the way
  const bool negative = value < 0;
  if (negative && !f.has_sign) return false;
  const double limit = negative ? -lowest(f) : largest(f);
  if ((negative ? -value : value) <= limit) return false;
  // The same format with one more exponent bit (an integer with two more digits) has the same quantum at the limit.
  // Far beyond, it saturates in its turn, still beyond the limit.
  Cast rounding{.rounding = cast.rounding, .random_bits = cast.random_bits};
  if (f.exponent_bits >= 11) {  // beyond double's own exponents only a carry can lead
    const Code code = encode(value, f, rounding, random);
    return is_inf(code, f) || is_nan(code, f);
  }
  Format larger = f;
  if (f.is_integer()) larger.mantissa_bits += 2, larger.bias -= 2;
  else larger.exponent_bits += 1, larger.specials = Specials::none;
  rounding.overflow = Overflow::saturate;
  const double rounded = decode(encode(value, larger, rounding, random), larger);
  return (negative ? -rounded : rounded) > limit;
}

}  // namespace narrow
