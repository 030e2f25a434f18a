// From an exact value to a code: cut, decide, and give overflow, underflow and the specials their codes.
//
//   static_assert(round_exact({false, 3, -1, false}, "fp16"_fmt) == 0x3E00);  // 3 * 2^-1
#pragma once

#include "narrow/base/bits.hpp"
#include "narrow/format/decode.hpp"
#include "narrow/round/decide.hpp"

namespace narrow {

// (-1)^negative * (significand + tail) * 2^exponent with tail = 0, or 0 < tail < 1 unknown when sticky. A sticky value
// must have at least 64 bits more than the target keeps, so that the tail stays below every rounding decision.
struct Exact {
  bool negative = false;
  U128 significand = 0;
  int exponent = 0;
  bool sticky = false;
};

namespace detail {

// The code for what is beyond the largest finite value when it is not saturated.
constexpr Code special_code(bool negative, const Format& f) noexcept {
  if (f.has_infinity()) return f.infinity_code(negative);
  return f.has_nan() ? f.nan_code(negative) : f.max_code(negative);
}

constexpr Code zero_to(bool negative, const Format& f, const Cast& cast) noexcept {
  return f.zero_code(negative && cast.zero == Zero::keep_sign);
}

constexpr bool is_below_unsigned(bool negative, const Format& f, const Cast& cast) noexcept {
  return negative && !f.has_sign && cast.negative == Negative::to_nan;
}

// What is below a format without a sign: NaN, or 0 where there is no NaN, and where there is a zero to end at.
constexpr Code below_unsigned(bool ends_at_zero, const Format& f) noexcept {
  return !f.has_nan() || (ends_at_zero && f.has_zero) ? 0 : f.nan_code();
}

constexpr Code infinity_to(bool negative, const Format& f, const Cast& cast) noexcept {
  if (is_below_unsigned(negative, f, cast)) return below_unsigned(cast.overflow == Overflow::saturate, f);
  negative = negative && f.has_sign;
  return cast.overflow == Overflow::saturate ? f.max_code(negative) : special_code(negative, f);
}

// payload: the upper 52 bits of a carrier's NaN payload, quiet bit first.
constexpr Code nan_to(bool negative, std::uint64_t payload, const Format& f, Nan rule) noexcept {
  if (!f.has_nan()) {
    if (rule == Nan::turned_zero) return f.zero_code(!negative);
    if (rule == Nan::zero) return f.zero_code();
    return f.is_integer() ? 0 : f.max_code();
  }
  const bool drops_sign = rule == Nan::canonical || rule == Nan::zero;
  if (drops_sign || f.specials != Specials::inf_and_nan) return f.nan_code(negative && !drops_sign);
  const Code quiet_bit = 1ull << (f.mantissa_bits - 1);
  const Code kept = payload >> (52 - f.mantissa_bits);
  Code mantissa = f.mantissa_mask();
  if (rule == Nan::keep_payload) mantissa = kept | quiet_bit;
  if (rule == Nan::quiet || rule == Nan::turned_zero) mantissa = quiet_bit;
  if (rule == Nan::cut_payload) mantissa = kept;
  return f.with_sign(f.infinity_code() | mantissa, negative);
}

// A magnitude cut at a bit: whole quanta, then 64 bits of fraction, then whether anything is below them.
//      kkkkkkkkkk|rrrrrrrr...|bbbb
struct Cut {
  std::uint64_t kept;
  std::uint64_t rest;
  bool below;
};

// shift: how many bits of the significand are fraction; negative when the quantum is finer than the last bit.
template <class Integer>
constexpr Cut cut_at(Integer significand, int shift, bool sticky) noexcept {
  if (shift <= 0) return {static_cast<std::uint64_t>(significand << -shift), 0, sticky};
  const auto kept = static_cast<std::uint64_t>(shift_right(significand, shift));
  if (shift < 64) return {kept, static_cast<std::uint64_t>(significand) << (64 - shift), sticky};
  return {kept, static_cast<std::uint64_t>(shift_right(significand, shift - 64)),
          sticky || loses_bits(significand, shift - 64)};
}

// The kernel of every rounding in the library. Integer is uint64_t (casts) or U128 (exact results of arithmetic).
template <class Integer>
constexpr Code round_significand(bool negative, Integer significand, int exponent, bool sticky, const Format& f,
                                 const Cast& cast, std::uint64_t random) noexcept {
  if (significand == 0 && !sticky) {
    const bool zero_is_nan = !f.has_zero && cast.near_zero == NearZero::by_field_no_zero;
    return zero_is_nan ? f.nan_code() : zero_to(negative, f, cast);
  }
  const bool is_below = is_below_unsigned(negative, f, cast);
  if (is_below && !f.has_zero) return f.nan_code();
  negative = negative && (f.has_sign || is_below);

  // 1. The binade fixes the quantum 2^(binade - mantissa_bits); below the smallest normal it stays (subnormals).
  const bool field_0_is_zero = f.has_zero || cast.near_zero != NearZero::by_value;
  const int min_exponent = field_0_is_zero ? 1 - f.bias : -f.bias;
  const int top = exponent + bit_length(significand) - 1;
  const int binade = top > min_exponent ? top : min_exponent;
  // Beyond four times the largest value nothing depends on the bits (and the code below would not fit).
  const Code largest_code = f.max_magnitude(negative);
  const bool far_beyond = binade - min_exponent > static_cast<int>(largest_code >> f.mantissa_bits) + 2;

  // 2. Cut and decide. kept < 2^(mantissa_bits + 1) before the decision.
  const Cut cut = cut_at(significand, binade - f.mantissa_bits - exponent, sticky);
  const Code last = cut.kept + (f.ties_to_even_code() ? static_cast<Code>(binade - min_exponent) : 0);
  const Code kept = cut.kept + (decide(cast, negative, (last & 1) != 0, cut.rest, cut.below, random) ? 1 : 0);

  // 3. The magnitude code. The implicit bit of kept adds one to the exponent field, and a carry out of the mantissa
  //    moves into the next binade by itself:  0 1111 + 1 -> 1 0000.
  Code magnitude = 0;
  if (!far_beyond) {
    magnitude = (static_cast<Code>(binade - min_exponent) << f.mantissa_bits) + kept;
    if (!field_0_is_zero) {  // field 0 is a binade: no implicit bit to count, and nothing below the smallest value
      const Code implicit = 1ull << f.mantissa_bits;
      magnitude = magnitude > implicit ? magnitude - implicit : 0;
    }
  }

  const bool flushes = cast.subnormals == Subnormals::flush_results && f.has_subnormals() && !far_beyond;
  if (flushes && magnitude <= f.mantissa_mask()) magnitude = 0;
  if (is_below) {
    const bool inward = cast.rounding == Rounding::toward_zero || cast.rounding == Rounding::up;
    return below_unsigned(inward || (magnitude == 0 && !far_beyond) || cast.overflow != Overflow::to_special, f);
  }

  // 4. Overflow. A mode that would not move a value just below the next one up stays at the largest finite value;
  // to_odd
  //    moves where Inf has the odd code, as P3109's formats with a sign have it.
  if (far_beyond || magnitude > largest_code) {
    const bool largest_is_odd = !(f.specials == Specials::extended && f.has_sign);
    const bool outward = decide(cast, negative, largest_is_odd, ~0ull, true, ~0ull);
    return outward && cast.overflow == Overflow::to_special ? special_code(negative, f) : f.max_code(negative);
  }
  return magnitude == 0 ? zero_to(negative, f, cast) : f.with_sign(magnitude, negative);
}

}  // namespace detail

// The code that an exact value becomes.
constexpr Code round_exact(const Exact& x, const Format& f, const Cast& cast = {}, std::uint64_t random = 0) noexcept {
  return detail::round_significand(x.negative, x.significand, x.exponent, x.sticky, f, cast, random);
}

}  // namespace narrow
