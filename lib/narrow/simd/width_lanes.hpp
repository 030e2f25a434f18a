// Lanes that change their width: fp16, bytes and 16 bits to words and back, with the signs of floats.
#pragma once

#include "narrow/simd/lanes.hpp"

namespace narrow::detail::inline NARROW_LANES {

// The CPU's own conversions between float and fp16 (nearest even), where it has them.
#if defined(__ARM_NEON) || defined(NARROW_LANES_AVX2) || defined(NARROW_LANES_AVX512)
inline constexpr bool has_half_lanes = true;
#else
inline constexpr bool has_half_lanes = false;
#endif

inline HalfLanes to_half(WordLanes x) noexcept {
#if defined(__ARM_NEON)
  return as<HalfLanes>(vcvt_f16_f32(as<float32x4_t>(x)));
#elif defined(NARROW_LANES_AVX512)
  return as<HalfLanes>(_mm512_cvtps_ph(as<__m512>(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(NARROW_LANES_AVX2)
  return as<HalfLanes>(_mm256_cvtps_ph(as<__m256>(x), _MM_FROUND_TO_NEAREST_INT));
#else
  return __builtin_convertvector(x, HalfLanes);  // never asked: has_half_lanes is false
#endif
}
inline WordLanes from_half(HalfLanes h) noexcept {
#if defined(__ARM_NEON)
  return as<WordLanes>(vcvt_f32_f16(as<float16x4_t>(h)));
#elif defined(NARROW_LANES_AVX512)
  return as<WordLanes>(_mm512_cvtph_ps(as<__m256i>(h)));
#elif defined(NARROW_LANES_AVX2)
  return as<WordLanes>(_mm256_cvtph_ps(as<__m128i>(h)));
#else
  return __builtin_convertvector(h, WordLanes);  // never asked
#endif
}
inline void from_half_row(HalfRow h, WordLanes (&words)[2]) noexcept {
#if defined(__ARM_NEON)
  words[0] = as<WordLanes>(vcvt_f32_f16(vget_low_f16(as<float16x8_t>(h))));
  words[1] = as<WordLanes>(vcvt_high_f32_f16(as<float16x8_t>(h)));
#else
  HalfLanes parts[2];
  __builtin_memcpy(parts, &h, sizeof h);
  words[0] = from_half(parts[0]), words[1] = from_half(parts[1]);
#endif
}

// As many bytes as words[4] have lanes, at the tops of two rows of 16 bits: byte << 8.
inline void bytes_at_top(const uint8_t* in, HalfRow (&rows)[2]) noexcept {
#if defined(__ARM_NEON)
  const uint8x16_t codes = vld1q_u8(in), zero = vdupq_n_u8(0);
  rows[0] = as<HalfRow>(vzip1q_u8(zero, codes)), rows[1] = as<HalfRow>(vzip2q_u8(zero, codes));
#elif defined(NARROW_LANES_AVX512)
  for (int k = 0; k < 2; ++k)
    rows[k] = as<HalfRow>(_mm512_slli_epi16(_mm512_cvtepu8_epi16(load_as<__m256i>(in + 32 * k)), 8));
#elif defined(NARROW_LANES_AVX2)
  for (int k = 0; k < 2; ++k)
    rows[k] = as<HalfRow>(_mm256_slli_epi16(_mm256_cvtepu8_epi16(load_as<__m128i>(in + 16 * k)), 8));
#elif defined(__SSE2__)
  const __m128i codes = load_as<__m128i>(in), zero = _mm_setzero_si128();
  rows[0] = as<HalfRow>(_mm_unpacklo_epi8(zero, codes)), rows[1] = as<HalfRow>(_mm_unpackhi_epi8(zero, codes));
#else
  typedef uint8_t Bytes __attribute__((vector_size(lane_bytes / 2)));
  for (int k = 0; k < 2; ++k) rows[k] = __builtin_convertvector(load_as<Bytes>(in + lane_bytes / 2 * k), HalfRow) << 8;
#endif
}

// Rows of 16 bits at the tops of words.
inline void halves_at_top(HalfRow row, WordLanes (&words)[2]) noexcept {
#if defined(__ARM_NEON)
  const auto h = as<uint16x8_t>(row);
  words[0] = as<WordLanes>(vshll_n_u16(vget_low_u16(h), 16)), words[1] = as<WordLanes>(vshll_high_n_u16(h, 16));
#elif defined(__SSE2__) && !defined(NARROW_LANES_AVX2) && !defined(NARROW_LANES_AVX512)
  const __m128i h = as<__m128i>(row), zero = _mm_setzero_si128();
  words[0] = as<WordLanes>(_mm_unpacklo_epi16(zero, h)), words[1] = as<WordLanes>(_mm_unpackhi_epi16(zero, h));
#else
  HalfLanes parts[2];
  __builtin_memcpy(parts, &row, sizeof row);
  for (int k = 0; k < 2; ++k) words[k] = __builtin_convertvector(parts[k], WordLanes) << 16;
#endif
}

// Four vectors of words to one row of narrower elements: the low part of each word.
template <class Out>
inline void store_narrow(Out* out, const WordLanes* x) noexcept {
  if constexpr (sizeof(Out) == 4) {
    for (int k = 0; k < 4; ++k) store(out + k * lane_count, x[k]);
  } else {
#if defined(__ARM_NEON)
    const uint16x8_t low = vuzp1q_u16(as<uint16x8_t>(x[0]), as<uint16x8_t>(x[1]));
    const uint16x8_t high = vuzp1q_u16(as<uint16x8_t>(x[2]), as<uint16x8_t>(x[3]));
    if constexpr (sizeof(Out) == 2) {
      store(out, low);
      store(out + 8, high);
    } else {
      store(out, vuzp1q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high)));
    }
#elif defined(NARROW_LANES_AVX2)
    // Codes are below 2^16 or 2^8, so that packing with saturation keeps them; it works within halves of the register.
    const auto low = _mm256_packus_epi32(as<__m256i>(x[0] & (sizeof(Out) == 2 ? 0xFFFFu : 0xFFu)), as<__m256i>(x[1] & (sizeof(Out) == 2 ? 0xFFFFu : 0xFFu)));
    const auto high = _mm256_packus_epi32(as<__m256i>(x[2] & (sizeof(Out) == 2 ? 0xFFFFu : 0xFFu)), as<__m256i>(x[3] & (sizeof(Out) == 2 ? 0xFFFFu : 0xFFu)));
    if constexpr (sizeof(Out) == 2) {
      store(out, _mm256_permute4x64_epi64(low, 0xD8));
      store(out + 16, _mm256_permute4x64_epi64(high, 0xD8));
    } else {
      const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
      store(out, _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order));
    }
#elif defined(NARROW_LANES_AVX512)
    for (int k = 0; k < 4; ++k) {
      if constexpr (sizeof(Out) == 2) store(out + 16 * k, _mm512_cvtepi32_epi16(as<__m512i>(x[k])));
      else store(out + 16 * k, _mm512_cvtepi32_epi8(as<__m512i>(x[k])));
    }
#else
    typedef Out OutLanes __attribute__((vector_size(sizeof(Out) * lane_count)));
    for (int k = 0; k < 4; ++k) store(out + k * lane_count, __builtin_convertvector(x[k], OutLanes));
#endif
  }
}

// The same for magnitudes, with the signs of x at the bit `sign`: bit 31 moved down by `shift`. On ARM the signs are
// narrowed first, so that they cost four operations for sixteen elements.
// UnsignedZero: a magnitude of zero gets no sign, and one may have that bit already (the NaN of the fnuz formats).
template <bool UnsignedZero, class Out>
inline void store_signed(Out* out, WordLanes* magnitudes, const WordLanes* x, int shift, uint32_t sign) noexcept {
#if defined(__ARM_NEON)
  if constexpr (sizeof(Out) < 4) {
    const auto top = [&](int k) { return vuzp2q_u16(as<uint16x8_t>(x[k]), as<uint16x8_t>(x[k + 1])); };
    const auto low = [&](int k) { return vuzp1q_u16(as<uint16x8_t>(magnitudes[k]), as<uint16x8_t>(magnitudes[k + 1])); };
    if constexpr (sizeof(Out) == 2) {
      const int16x8_t down = vdupq_n_s16(static_cast<int16_t>(16 - shift));
      const uint16x8_t mask = vdupq_n_u16(static_cast<uint16_t>(sign));
      const auto join = [&](uint16x8_t tops, uint16x8_t lows) {
        if constexpr (UnsignedZero)
          return vorrq_u16(lows, vandq_u16(vshlq_u16(tops, down), vandq_u16(mask, vtstq_u16(lows, lows))));
        else return vbslq_u16(mask, vshlq_u16(tops, down), lows);
      };
      store(out, join(top(0), low(0)));
      store(out + 8, join(top(2), low(2)));
    } else {
      const uint8x16_t tops = vuzp2q_u8(vreinterpretq_u8_u16(top(0)), vreinterpretq_u8_u16(top(2)));
      const uint8x16_t lows = vuzp1q_u8(vreinterpretq_u8_u16(low(0)), vreinterpretq_u8_u16(low(2)));
      const int8x16_t down = vdupq_n_s8(static_cast<int8_t>(24 - shift));
      const uint8x16_t mask = vdupq_n_u8(static_cast<uint8_t>(sign));
      if constexpr (UnsignedZero)
        store(out, vorrq_u8(lows, vandq_u8(vshlq_u8(tops, down), vandq_u8(mask, vtstq_u8(lows, lows)))));
      else store(out, vbslq_u8(mask, vshlq_u8(tops, down), lows));
    }
    return;
  }
#endif
  for (int k = 0; k < 4; ++k) {
    const WordLanes signs = (x[k] >> shift) & sign;
    magnitudes[k] |= UnsignedZero ? signs & as<WordLanes>(magnitudes[k] != 0) : signs;
  }
  store_narrow(out, magnitudes);
}

}  // namespace narrow::detail::inline NARROW_LANES
