// One float to a code and back in a few instructions, for casts that need nothing unusual; all others go through
// encode() and decode().
#pragma once

#include <cstdint>

#include "narrow/base/random.hpp"
#include "narrow/round/round_to.hpp"

namespace narrow::detail {

// How a cast is done.
enum class LaneWay : std::uint8_t {
  anchor,  // fewer exponent bits than float: the sum with a power of two cuts and rounds
  field,   // float's exponent field: the code is the upper part of the word
  general  // encode()
};

struct LanePlan {
  LaneWay way = LaneWay::general;
  Format format{};
  Cast cast{};
  int shift = 0;                                                 // 23 - mantissa_bits
  unsigned min_field = 0;                                        // float's field of the smallest normal value, in place
  unsigned max_magnitude = 0;                                    // code
  unsigned beyond = 0, infinite = 0, nan = 0;                    // codes of a finite overflow, of Inf, of NaN
  unsigned beyond_value = 0, infinite_value = 0, nan_value = 0;  // the same as floats
  bool nan_keeps_sign = false;
  int sign_shift = 0;
  int random_shift = 0;  // moves the random bits that count to the top of a word
};

inline LanePlan lane_plan(const Format& f, const Cast& cast) {
  LanePlan p;
  p.format = f, p.cast = cast;
  const bool plain_format = f.has_negative_zero() && !f.is_integer() && f.mantissa_bits >= 1 && f.mantissa_bits <= 22 &&
                            f.exponent_bits <= 8 && f.width() <= 32;
  const bool is_random = cast.rounding == Rounding::stochastic;
  const bool plain_rounding = cast.rounding == Rounding::nearest_even || cast.rounding == Rounding::toward_zero ||
                              (is_random && cast.random_bits >= 1 && cast.random_bits <= 32);
  const bool plain_cast = plain_rounding && cast.subnormals == Subnormals::keep &&
                          cast.overflow != Overflow::saturate_finite &&
                          (cast.nan == Nan::canonical || cast.nan == Nan::keep_sign);
  if (!plain_format || !plain_cast) return p;
  const auto value = [&](Code code) { return std::bit_cast<unsigned>(static_cast<float>(decode(code, f))); };
  p.shift = 23 - f.mantissa_bits;
  p.max_magnitude = static_cast<unsigned>(f.max_magnitude());
  p.beyond = static_cast<unsigned>(encode(0x1.fffffep+127f, f, cast, ~std::uint64_t{0}));  // rounded up by all means
  p.infinite = static_cast<unsigned>(encode(std::bit_cast<float>(0x7F800000u), f, cast));
  p.nan = static_cast<unsigned>(encode(std::bit_cast<float>(0x7FC00000u), f, cast));
  p.beyond_value = value(p.beyond), p.infinite_value = value(p.infinite), p.nan_value = value(p.nan);
  p.nan_keeps_sign = cast.nan == Nan::keep_sign && f.has_nan();
  p.sign_shift = 32 - f.width();
  p.random_shift = is_random ? 32 - cast.random_bits : 0;
  if (f.exponent_bits == 8 && f.bias == 127 && f.specials == Specials::inf_and_nan) p.way = LaneWay::field;
  // The anchor of the largest value must be a float, and so must the smallest subnormal's.
  // With 22 bits a carry would leave the anchor's binade. Stochastic: 2^32 over the smallest quantum must be a float,
  // too.
  const bool fits = f.mantissa_bits <= 21 && f.max_exponent() + p.shift < 127 && f.min_exponent() >= -126 &&
                    f.min_exponent() + p.shift <= 127 && (!is_random || f.min_exponent() + p.shift >= 55 - 127);
  if (p.way == LaneWay::general && fits) {
    p.way = LaneWay::anchor;
    p.min_field = static_cast<unsigned>(f.min_exponent() + 127) << 23;
  }
  return p;
}

// The word of a + anchor. With anchor 2^(e + 23 - m), e the exponent of a but at least emin, the last place of the sum
// is 2^(e - m), so that the float addition rounds (or cuts) to the format's quantum. The anchor is even, so ties go as
// they should; the low bits of the sum are the significand in quanta:
//   anchor 1.000000000000000|        sum 1.00000000000kkkkk
// Stochastic: the rest times 2^32 / quantum plus the random word (its bits at the top) carries as often as it should.
template <Rounding R>
__device__ inline unsigned anchored_sum(float a, float anchor, unsigned random) {
  if constexpr (R == Rounding::nearest_even) return __float_as_uint(__fadd_rn(a, anchor));
  const unsigned cut = __float_as_uint(__fadd_rz(a, anchor));
  if constexpr (R == Rounding::stochastic) {
    const float rest = a - (__uint_as_float(cut) - anchor);
    const float per_quantum = __uint_as_float(((55u + 254) << 23) - __float_as_uint(anchor));
    const unsigned fraction = __float2uint_rz(rest * per_quantum);
    return cut + (fraction + random < fraction ? 1 : 0);
  }
  return cut;
}

// Float's exponent field at the top: the code before overflow is looked at.
template <Rounding R>
__device__ inline unsigned field_code(unsigned a, int shift, unsigned random) {
  if constexpr (R == Rounding::toward_zero) return a >> shift;
  if constexpr (R == Rounding::stochastic) return (a + (random >> (32 - shift))) >> shift;
  const unsigned odd = a >> shift & 1;
  return (a + odd + ((1u << (shift - 1)) - 1)) >> shift;
}

__device__ inline float anchor_of(unsigned field, const LanePlan& p) {
  return __uint_as_float(field + (static_cast<unsigned>(p.shift) << 23));
}

// Far beyond the largest value the anchor would leave the range of floats; a clamp keeps the sum finite and beyond.
__device__ inline unsigned within_anchors(unsigned a, const LanePlan& p) {
  return min(a, 0x7F000000u - (static_cast<unsigned>(p.shift) << 23));
}

// What a stochastic cast adds to element i: the bits that count at the top, and zeros.
template <Rounding R>
__device__ inline unsigned random_word(const LanePlan& p, std::uint64_t seed, std::size_t i) {
  return R == Rounding::stochastic ? static_cast<unsigned>(random_bits(seed, i)) << p.random_shift : 0;
}

// random: such a word.
template <LaneWay W, Rounding R>
__device__ inline unsigned encode_lane(float x, const LanePlan& p, unsigned random = 0) {
  const unsigned word = __float_as_uint(x), a = word & 0x7FFFFFFFu, sign = (word & 0x80000000u) >> p.sign_shift;
  unsigned code;
  if constexpr (W == LaneWay::field) {
    code = field_code<R>(a, p.shift, random);
  } else {
    const unsigned safe = within_anchors(a, p), field = max(safe & 0x7F800000u, p.min_field);
    const unsigned sum = anchored_sum<R>(__uint_as_float(safe), anchor_of(field, p), random);
    code = ((field - p.min_field) >> p.shift) + (sum & 0x7FFFFFu);
  }
  code = code > p.max_magnitude ? p.beyond : code;
  code = a >= 0x7F800000u ? p.infinite : code;
  code |= sign;
  if (a > 0x7F800000u) code = p.nan | (p.nan_keeps_sign ? sign : 0);
  return code;
}

template <LaneWay W, Rounding R>
__device__ inline float round_lane(float x, const LanePlan& p, unsigned random = 0) {
  const unsigned word = __float_as_uint(x), a = word & 0x7FFFFFFFu, sign = word & 0x80000000u;
  unsigned value;
  if constexpr (W == LaneWay::field) {
    const unsigned code = field_code<R>(a, p.shift, random);
    value = code > p.max_magnitude ? p.beyond_value : code << p.shift;
  } else {
    const unsigned safe = within_anchors(a, p), field = max(safe & 0x7F800000u, p.min_field);
    const float anchor = anchor_of(field, p);
    const unsigned sum = anchored_sum<R>(__uint_as_float(safe), anchor, random);
    const unsigned code = ((field - p.min_field) >> p.shift) + (sum & 0x7FFFFFu);
    value = code > p.max_magnitude ? p.beyond_value : __float_as_uint(__uint_as_float(sum) - anchor);
  }
  value = a >= 0x7F800000u ? p.infinite_value : value;
  value |= sign;
  if (a > 0x7F800000u) value = p.nan_value | (p.nan_keeps_sign ? sign : 0);
  return __uint_as_float(value);
}

// Codes whose value is a shifted word times a power of two; NaN and Inf by comparison.
struct DecodeLane {
  int shift, sign_shift;
  float scale;
  unsigned magnitude_mask, max_magnitude, infinity;
  __device__ float operator()(unsigned code) const {
    const unsigned magnitude = code & magnitude_mask, sign = code << sign_shift & 0x80000000u;
    float value = __uint_as_float(magnitude << shift) * scale;
    if (magnitude > max_magnitude)  // a NaN keeps its payload and is quiet
      value = __uint_as_float(0x7F800000u | magnitude << shift | (magnitude > infinity ? 0x400000u : 0u));
    return __uint_as_float(__float_as_uint(value) | sign);
  }
};

inline bool has_decode_lane(const Format& f) {
  return f.has_negative_zero() && !f.is_integer() && f.exponent_bits <= 8 && f.mantissa_bits <= 23 && f.bias <= 127 &&
         f.bias >= 1 && f.max_exponent() <= 127;
}

inline DecodeLane decode_lane(const Format& f) {
  return {23 - f.mantissa_bits,
          32 - f.width(),
          static_cast<float>(compose(false, 1, 127 - f.bias)),
          static_cast<unsigned>(f.magnitude_mask()),
          static_cast<unsigned>(f.max_magnitude()),
          static_cast<unsigned>(f.has_infinity() ? f.infinity_code() : f.max_magnitude())};
}

}  // namespace narrow::detail
