// The oracle: the code that a value has in a format under a cast, from the definitions. It knows format.hpp (the data
// members) and cast.hpp (the enumerators) and shares no code with the library. Slow and obvious is its purpose.
#pragma once

#include "narrow/round/cast.hpp"
#include "support/oracle/split.hpp"

namespace oracle {

using narrow::Cast;
using narrow::Nan;
using narrow::NearZero;
using narrow::Negative;
using narrow::Overflow;
using narrow::Rounding;
using narrow::Subnormals;
using narrow::Zero;

// Whether the magnitude below has an odd last bit. P3109 without a stored mantissa: the last bit of the code, which is
// 0 for zero and grows by one from each power of two to the next.
inline bool is_odd(const Split& s, const Format& f) {
  const bool by_code = f.mantissa_bits == 0 && f.has_zero && f.specials != Specials::none;
  return by_code && s.steps == 1 ? (s.quantum + f.bias) % 2 != 0 : s.steps % 2 == 1;
}

inline bool goes_up(const Split& s, const Format& f, const Cast& cast, std::uint64_t random) {
  if (s.exact) return false;
  const bool odd = is_odd(s, f);
  switch (cast.rounding) {
    case Rounding::nearest_even: return s.half > 0 || (s.half == 0 && odd);
    case Rounding::nearest_away: return s.half >= 0;
    case Rounding::nearest_to_zero: return s.half > 0;
    case Rounding::toward_zero: return false;
    case Rounding::up: return !s.negative;
    case Rounding::down: return s.negative;
    case Rounding::to_odd: return !odd;
    case Rounding::stochastic: {
      const Wide all = Wide{1} << cast.random_bits;
      return (s.fraction >> (64 - cast.random_bits)) + random % all >= all;
    }
  }
  return false;
}

inline Code signed_code(Code magnitude, bool negative, const Format& f) {
  if (!negative) return magnitude;
  if (f.twos_complement) return (~magnitude + 1) & ones(width(f));
  return magnitude | sign_bit(f);
}
inline Code zero_code(bool negative, const Format& f) { return negative && has_negative_zero(f) ? sign_bit(f) : 0; }
inline Code largest_code(bool negative, const Format& f) {
  return signed_code(largest_magnitude(f, negative), negative, f);
}
inline Code nan_code(bool negative, const Format& f) {
  const bool at_negative_zero = f.specials == Specials::nan_is_negative_zero || f.specials == Specials::extended;
  return at_negative_zero && f.has_sign ? sign_bit(f) : below_sign(f) | (negative ? sign_bit(f) : 0);
}
// Inf, else NaN with the sign, else the largest finite value.
inline Code special_code(bool negative, const Format& f) {
  if (f.specials == Specials::inf_and_nan)
    return ones(f.exponent_bits) << f.mantissa_bits | (negative ? sign_bit(f) : 0);
  if (f.specials == Specials::extended) return signed_code(largest_magnitude(f, negative) + 1, negative, f);
  return f.specials == Specials::none ? largest_code(negative, f) : nan_code(negative, f);
}

inline Code overflow_code(bool negative, const Format& f, const Cast& cast) {
  const Rounding r = cast.rounding;
  const bool inf_is_odd = f.specials == Specials::extended && f.has_sign;
  const bool toward_zero = r == Rounding::toward_zero || (r == Rounding::to_odd && !inf_is_odd) ||
                           r == (negative ? Rounding::up : Rounding::down);
  return cast.overflow == Overflow::to_special && !toward_zero ? special_code(negative, f) : largest_code(negative, f);
}

// The format whose quanta count while rounding: where code 0 is to be taken as zero, the lowest binade is not there.
inline Format while_rounding(Format f, const Cast& cast) {
  if (cast.near_zero != NearZero::by_value) f.has_zero = true;
  return f;
}

inline Code signed_zero(bool negative, const Format& f, const Cast& cast) {
  return cast.zero == Zero::positive ? zero_code(false, f) : zero_code(negative, f);
}
inline Code exact_zero(bool negative, const Format& f, const Cast& cast) {
  const bool is_nan = !f.has_zero && cast.near_zero == NearZero::by_field_no_zero;
  return is_nan ? nan_code(false, f) : signed_zero(negative, f, cast);
}

// A negative value that does not round to zero, in a format that has a zero and no sign.
inline Code below_zero(const Format& f, const Cast& cast) {
  const bool ends_at_zero = cast.overflow != Overflow::to_special || cast.rounding == Rounding::toward_zero ||
                            cast.rounding == Rounding::up || f.specials == Specials::none;
  return ends_at_zero ? 0 : nan_code(false, f);
}

// Rounds and encodes a value that was split for while_rounding(f, cast).
inline Code finish(Split s, const Format& f, const Cast& cast, std::uint64_t random) {
  if (s.exact && s.steps == 0) return exact_zero(s.negative, f, cast);
  const bool below = !f.has_sign && s.negative && cast.negative == Negative::to_nan;
  if (below && !f.has_zero) return nan_code(false, f);
  if (!f.has_sign && !below) s.negative = false;
  std::uint64_t steps = s.steps + (goes_up(s, f, cast, random) ? 1 : 0);
  if (steps == 0) return signed_zero(s.negative, f, cast);
  if (below) {
    const bool subnormal = f.exponent_bits > 0 && steps < std::uint64_t{1} << f.mantissa_bits;
    if (subnormal && cast.subnormals == Subnormals::flush_results) return 0;
    return below_zero(f, cast);
  }
  if (f.exponent_bits == 0) {
    const bool overflow = s.quantum > min_exponent(f) - f.mantissa_bits || steps > largest_magnitude(f, s.negative);
    return overflow ? overflow_code(s.negative, f, cast) : signed_code(steps, s.negative, f);
  }
  const std::uint64_t one = std::uint64_t{1} << f.mantissa_bits;  // steps of a power of two
  if (steps < one) {
    // Only in the lowest binade; there the mantissa field counts the quanta.
    const bool flush = cast.subnormals == Subnormals::flush_results;
    return flush ? signed_zero(s.negative, f, cast) : signed_code(steps, s.negative, f);
  }
  int exponent = s.quantum + f.mantissa_bits;
  if (steps == 2 * one) {
    steps = one;
    ++exponent;
  }
  const Code largest = largest_magnitude(f, s.negative);
  const int largest_exponent = static_cast<int>(largest >> f.mantissa_bits) - f.bias;
  const std::uint64_t largest_steps = (largest & ones(f.mantissa_bits)) + one;
  if (exponent > largest_exponent || (exponent == largest_exponent && steps > largest_steps))
    return overflow_code(s.negative, f, cast);
  return signed_code(static_cast<Code>(exponent + f.bias) << f.mantissa_bits | (steps - one), s.negative, f);
}

// negative_zero: the sign that a zero has (a rational zero has none).
inline Code round_rational(const Rational& x, bool negative_zero, const Format& f, const Cast& cast = {},
                           std::uint64_t random = 0) {
  return finish(split(x, negative_zero, while_rounding(f, cast), cast.rounding == Rounding::stochastic), f, cast,
                random);
}

// sqrt(x) for x >= 0.
inline Code round_sqrt(const Rational& x, bool negative_zero, const Format& f, const Cast& cast = {},
                       std::uint64_t random = 0) {
  if (x.is_zero()) return exact_zero(negative_zero, f, cast);
  return finish(split_sqrt(x, while_rounding(f, cast)), f, cast, random);
}

inline Code round_inf(bool negative, const Format& f, const Cast& cast) {
  if (!f.has_sign && negative) {
    const bool to_zero = f.specials == Specials::none || (f.has_zero && cast.overflow == Overflow::saturate);
    if (cast.negative == Negative::to_nan) return to_zero ? 0 : nan_code(false, f);
    negative = false;
  }
  return cast.overflow == Overflow::saturate ? largest_code(negative, f) : special_code(negative, f);
}

// A NaN whose payload (every bit below sign and exponent) is given left-aligned in 64 bits.
inline Code round_nan(bool negative, std::uint64_t payload, const Format& f, const Cast& cast) {
  if (f.specials == Specials::none) {
    if (cast.nan == Nan::turned_zero) return zero_code(!negative, f);
    if (cast.nan == Nan::zero) return zero_code(false, f);
    return f.exponent_bits == 0 ? 0 : largest_code(false, f);
  }
  if (cast.nan == Nan::canonical || cast.nan == Nan::zero) return nan_code(false, f);
  if (cast.nan == Nan::keep_sign || f.specials != Specials::inf_and_nan) return nan_code(negative, f);
  const Code quiet = Code{1} << (f.mantissa_bits - 1);
  const Code kept = payload >> (64 - f.mantissa_bits);
  const bool keeps_bits = cast.nan == Nan::keep_payload || cast.nan == Nan::cut_payload;
  const Code mantissa = (keeps_bits ? kept : 0) | (cast.nan == Nan::cut_payload ? 0 : quiet);
  return special_code(negative, f) | mantissa;
}

}  // namespace oracle

#include "support/oracle/carrier.hpp"
