// Codes of one byte, sixteen at a time, where byte operations do most of the work: on ARM.
#pragma once

#include "narrow/simd/lanes.hpp"

namespace narrow::detail::inline NARROW_LANES {

#if defined(__ARM_NEON)
inline constexpr bool has_byte_lanes = true;
#else
inline constexpr bool has_byte_lanes = false;
#endif

// Floats to codes, to nearest even, by the anchor c = e * 2^cut, where e is the power of two of x (at least that of the
// smallest normal value): the low byte of x + c is the number of quanta. The exponent joins it as a byte:
//   code = min(((E - least) << mantissa_bits) + quanta, limit)        saturating, so that no magnitude is too large
struct ByteEncoding {
  uint32_t min_exponent_bits;
  float lift;             // 2^cut
  uint8_t least;          // the exponent field of the smallest normal value
  int8_t mantissa_bits;
  uint8_t limit;          // what overflows gives
  int8_t sign_shift;      // from bit 7 to the sign
  uint8_t sign;
};

// What comes of Inf and NaN means nothing; tops: the largest exponent fields so far, for is_special.
template <bool SignOnTop>
inline void encode_bytes(const float* in, uint8_t* out, const ByteEncoding& p, HalfRow& tops) noexcept {
#if defined(__ARM_NEON)
  const uint32x4_t field = vdupq_n_u32(0x7F800000), least = vdupq_n_u32(p.min_exponent_bits);
  const float32x4_t lift = vdupq_n_f32(p.lift);
  uint32x4_t x[4], e[4], sum[4];
  for (int k = 0; k < 4; ++k) {
    x[k] = vreinterpretq_u32_f32(vld1q_f32(in + 4 * k));
    e[k] = vmaxq_u32(vandq_u32(x[k], field), least);
    sum[k] = vreinterpretq_u32_f32(vfmaq_f32(vabsq_f32(vreinterpretq_f32_u32(x[k])), vreinterpretq_f32_u32(e[k]), lift));
  }
  const auto halves = [](auto take, const uint32x4_t (&v)[4], int k) {
    return take(vreinterpretq_u16_u32(v[k]), vreinterpretq_u16_u32(v[k + 1]));
  };
  const auto low = [](uint16x8_t a, uint16x8_t b) { return vuzp1q_u16(a, b); };
  const auto high = [](uint16x8_t a, uint16x8_t b) { return vuzp2q_u16(a, b); };
  const uint16x8_t e0 = halves(high, e, 0), e1 = halves(high, e, 2);  // E << 7
  tops = as<HalfRow>(vmaxq_u16(as<uint16x8_t>(tops), vmaxq_u16(e0, e1)));
  const uint8x16_t quanta = vuzp1q_u8(vreinterpretq_u8_u16(halves(low, sum, 0)), vreinterpretq_u8_u16(halves(low, sum, 2)));
  const uint8x16_t exponent = vsubq_u8(vshrn_high_n_u16(vshrn_n_u16(e0, 7), e1, 7), vdupq_n_u8(p.least));
  const uint8x16_t code = vminq_u8(vqaddq_u8(vqshlq_u8(exponent, vdupq_n_s8(p.mantissa_bits)), quanta), vdupq_n_u8(p.limit));
  const uint8x16_t signs = vuzp2q_u8(vreinterpretq_u8_u16(halves(high, x, 0)), vreinterpretq_u8_u16(halves(high, x, 2)));
  vst1q_u8(out, vbslq_u8(vdupq_n_u8(p.sign), SignOnTop ? signs : vshlq_u8(signs, vdupq_n_s8(p.sign_shift)), code));
#else
  (void)in, (void)out, (void)p, (void)tops;
#endif
}
// Whether Inf or NaN was among what was encoded.
inline bool is_special(HalfRow tops) noexcept {
#if defined(__ARM_NEON)
  return vmaxvq_u16(as<uint16x8_t>(tops)) >= 0x7F80;
#else
  return tops[0] != 0;
#endif
}


// Codes to floats. A code's fields are those of the upper sixteen bits of a float, moved; a multiplication by a power of two
// corrects the bias and makes subnormals normal. Beyond the finite magnitudes the exponent is that of Inf and NaN.
//   seeeemmm   ->   s 0000eeee mmm0000 ...   * 2^(127 - bias)
struct ByteDecoding {
  uint8_t magnitudes;      // mask
  uint8_t finite_up_to;
  int8_t to_high, to_low;  // shifts from a magnitude to the two bytes
  int8_t justify;          // from the sign to bit 7
  float scale;
};

template <bool Finite>
inline void decode_bytes(const uint8_t* in, float* out, const ByteDecoding& p) noexcept {
#if defined(__ARM_NEON)
  const uint8x16_t codes = vld1q_u8(in), magnitude = vandq_u8(codes, vdupq_n_u8(p.magnitudes));
  uint8x16_t high = vshlq_u8(magnitude, vdupq_n_s8(p.to_high));
  if constexpr (!Finite) high = vorrq_u8(high, vandq_u8(vcgtq_u8(magnitude, vdupq_n_u8(p.finite_up_to)), vdupq_n_u8(0x7F)));
  const uint8x16_t low = vshlq_u8(magnitude, vdupq_n_s8(p.to_low));
  high = vbslq_u8(vdupq_n_u8(0x80), vshlq_u8(codes, vdupq_n_s8(p.justify)), high);
  const uint16x8_t zero = vdupq_n_u16(0);
  const uint16x8_t first = vreinterpretq_u16_u8(vzip1q_u8(low, high)), second = vreinterpretq_u16_u8(vzip2q_u8(low, high));
  const float32x4_t scale = vdupq_n_f32(p.scale);
  vst1q_f32(out, vmulq_f32(vreinterpretq_f32_u16(vzip1q_u16(zero, first)), scale));
  vst1q_f32(out + 4, vmulq_f32(vreinterpretq_f32_u16(vzip2q_u16(zero, first)), scale));
  vst1q_f32(out + 8, vmulq_f32(vreinterpretq_f32_u16(vzip1q_u16(zero, second)), scale));
  vst1q_f32(out + 12, vmulq_f32(vreinterpretq_f32_u16(vzip2q_u16(zero, second)), scale));
#else
  (void)in, (void)out, (void)p;
#endif
}

}  // namespace narrow::detail::inline NARROW_LANES
