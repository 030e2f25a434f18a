// Lanes: short vectors of floats and integers that g++ and clang turn into NEON, SSE or AVX. Every operation is the
// IEEE or two's complement one of its element, so that lanes and scalars give the same bits.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__F16C__)
#include <immintrin.h>
#endif

namespace narrow::detail {

#if defined(__AVX2__)
inline constexpr int lane_count = 8;
#else
inline constexpr int lane_count = 4;
#endif

typedef float FloatLanes __attribute__((vector_size(4 * lane_count)));
typedef std::uint32_t WordLanes __attribute__((vector_size(4 * lane_count)));
typedef std::int32_t IntLanes __attribute__((vector_size(4 * lane_count)));

inline WordLanes splat(std::uint32_t x) noexcept { return WordLanes{} + x; }
inline FloatLanes as_float(WordLanes x) noexcept { return std::bit_cast<FloatLanes>(x); }
inline WordLanes as_words(FloatLanes x) noexcept { return std::bit_cast<WordLanes>(x); }

inline WordLanes load(const float* from) noexcept {
  WordLanes x;
  std::memcpy(&x, from, sizeof x);
  return x;
}
template <class Vector, class T>
inline void store(T* to, Vector x) noexcept {
  std::memcpy(to, &x, sizeof x);
}

// Masks are all ones or all zeros in a lane. Magnitudes are below 2^31, so the signed comparison, which every machine
// has, orders them.
inline WordLanes above(WordLanes a, WordLanes b) noexcept {
  return std::bit_cast<WordLanes>(std::bit_cast<IntLanes>(a) > std::bit_cast<IntLanes>(b));
}
inline WordLanes above(FloatLanes a, FloatLanes b) noexcept { return std::bit_cast<WordLanes>(a > b); }
inline WordLanes equal(FloatLanes a, FloatLanes b) noexcept { return std::bit_cast<WordLanes>(a == b); }
inline WordLanes select(WordLanes mask, WordLanes yes, WordLanes no) noexcept { return (mask & yes) | (~mask & no); }
inline WordLanes larger(WordLanes a, WordLanes b) noexcept {
  const auto x = std::bit_cast<IntLanes>(a), y = std::bit_cast<IntLanes>(b);
  return std::bit_cast<WordLanes>(x > y ? x : y);
}
inline WordLanes smaller(WordLanes a, WordLanes b) noexcept {
  const auto x = std::bit_cast<IntLanes>(a), y = std::bit_cast<IntLanes>(b);
  return std::bit_cast<WordLanes>(x < y ? x : y);
}

inline WordLanes lesser_unsigned(WordLanes a, WordLanes b) noexcept { return a < b ? a : b; }

// |x| as a word: one instruction on ARM, where the compilers make two of the and.
inline WordLanes magnitude(WordLanes x) noexcept {
#if defined(__ARM_NEON)
  return std::bit_cast<WordLanes>(vabsq_f32(std::bit_cast<float32x4_t>(x)));
#else
  return x & 0x7FFFFFFFu;
#endif
}
inline WordLanes negative_mask(WordLanes x) noexcept { return std::bit_cast<WordLanes>(std::bit_cast<IntLanes>(x) < 0); }

// Whether some lane, as an unsigned word, is above the limit.
inline bool any_above(WordLanes x, std::uint32_t limit) noexcept {
#if defined(__ARM_NEON)
  return vmaxvq_u32(std::bit_cast<uint32x4_t>(x)) > limit;
#else
  std::uint32_t top = 0;
  for (int k = 0; k < lane_count; ++k) top = x[k] > top ? x[k] : top;
  return top > limit;
#endif
}

inline bool any(WordLanes mask) noexcept { return any_above(mask, 0); }

// x cut to [-below, above], for x that is no NaN; the limits are magnitude words.
inline WordLanes clamp(WordLanes x, std::uint32_t below, std::uint32_t above_zero) noexcept {
  const FloatLanes high = as_float(splat(above_zero)), low = as_float(splat(below | 0x80000000u));
  const FloatLanes v = as_float(x);
#if defined(__ARM_NEON)
  return std::bit_cast<WordLanes>(vmaxq_f32(vminq_f32(std::bit_cast<float32x4_t>(v), std::bit_cast<float32x4_t>(high)),
                                            std::bit_cast<float32x4_t>(low)));
#else
  const FloatLanes cut = v > high ? high : v;
  return as_words(cut < low ? low : cut);
#endif
}

// Rounding to an integer in a direction, with the sign kept also on zero, where the CPU has an instruction for it.
#if defined(__ARM_NEON)
inline constexpr bool has_integral_lanes = true;
inline FloatLanes integral_up(FloatLanes x) noexcept { return std::bit_cast<FloatLanes>(vrndpq_f32(std::bit_cast<float32x4_t>(x))); }
inline FloatLanes integral_down(FloatLanes x) noexcept { return std::bit_cast<FloatLanes>(vrndmq_f32(std::bit_cast<float32x4_t>(x))); }
inline FloatLanes integral_away(FloatLanes x) noexcept { return std::bit_cast<FloatLanes>(vrndaq_f32(std::bit_cast<float32x4_t>(x))); }
#else
inline constexpr bool has_integral_lanes = false;
inline FloatLanes integral_up(FloatLanes x) noexcept { return x; }  // never asked
inline FloatLanes integral_down(FloatLanes x) noexcept { return x; }
inline FloatLanes integral_away(FloatLanes x) noexcept { return x; }
#endif

// The CPU's own conversions between float and fp16 (nearest even), where it has them.
#if defined(__ARM_NEON) || (defined(__F16C__) && defined(__AVX2__))
inline constexpr bool has_half_lanes = true;
#else
inline constexpr bool has_half_lanes = false;
#endif

typedef std::uint16_t HalfLanes __attribute__((vector_size(2 * lane_count)));

inline HalfLanes to_half(WordLanes x) noexcept {
#if defined(__ARM_NEON)
  return std::bit_cast<HalfLanes>(vcvt_f16_f32(std::bit_cast<float32x4_t>(x)));
#elif defined(__F16C__) && defined(__AVX2__)
  return std::bit_cast<HalfLanes>(_mm256_cvtps_ph(std::bit_cast<__m256>(x), _MM_FROUND_TO_NEAREST_INT));
#else
  return __builtin_convertvector(x, HalfLanes);  // never asked: has_half_lanes is false
#endif
}
inline WordLanes from_half(HalfLanes h) noexcept {
#if defined(__ARM_NEON)
  return std::bit_cast<WordLanes>(vcvt_f32_f16(std::bit_cast<float16x4_t>(h)));
#elif defined(__F16C__) && defined(__AVX2__)
  return std::bit_cast<WordLanes>(_mm256_cvtph_ps(std::bit_cast<__m128i>(h)));
#else
  return __builtin_convertvector(h, WordLanes);  // never asked
#endif
}

// Eight fp16 words.
typedef std::uint16_t HalfRow __attribute__((vector_size(16)));
typedef std::int16_t SignedRow __attribute__((vector_size(16)));

inline void from_half_row(HalfRow h, WordLanes (&words)[8 / lane_count]) noexcept {
#if defined(__ARM_NEON)
  words[0] = std::bit_cast<WordLanes>(vcvt_f32_f16(vget_low_f16(std::bit_cast<float16x8_t>(h))));
  words[1] = std::bit_cast<WordLanes>(vcvt_high_f32_f16(std::bit_cast<float16x8_t>(h)));
#else
  for (int v = 0; v < 8 / lane_count; ++v) {
    HalfLanes part;
    std::memcpy(&part, reinterpret_cast<const char*>(&h) + v * sizeof part, sizeof part);
    words[v] = from_half(part);
  }
#endif
}

// Four vectors of words to one row of narrower elements: the low part of each word.
template <class Out>
void store_narrow(Out* out, const WordLanes* x) noexcept {
  if constexpr (sizeof(Out) == 4) {
    for (int k = 0; k < 4; ++k) store(out + k * lane_count, x[k]);
  } else {
#if defined(__ARM_NEON)
    const uint16x8_t low = vuzp1q_u16(std::bit_cast<uint16x8_t>(x[0]), std::bit_cast<uint16x8_t>(x[1]));
    const uint16x8_t high = vuzp1q_u16(std::bit_cast<uint16x8_t>(x[2]), std::bit_cast<uint16x8_t>(x[3]));
    if constexpr (sizeof(Out) == 2) {
      store(out, low);
      store(out + 8, high);
    } else {
      store(out, vuzp1q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high)));
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
void store_signed(Out* out, WordLanes* magnitudes, const WordLanes* x, int shift, std::uint32_t sign) noexcept {
#if defined(__ARM_NEON)
  if constexpr (sizeof(Out) < 4) {
    const auto top = [&](int k) { return vuzp2q_u16(std::bit_cast<uint16x8_t>(x[k]), std::bit_cast<uint16x8_t>(x[k + 1])); };
    const auto low = [&](int k) {
      return vuzp1q_u16(std::bit_cast<uint16x8_t>(magnitudes[k]), std::bit_cast<uint16x8_t>(magnitudes[k + 1]));
    };
    if constexpr (sizeof(Out) == 2) {
      const int16x8_t down = vdupq_n_s16(static_cast<std::int16_t>(16 - shift));
      const uint16x8_t mask = vdupq_n_u16(static_cast<std::uint16_t>(sign));
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
      const int8x16_t down = vdupq_n_s8(static_cast<std::int8_t>(24 - shift));
      const uint8x16_t mask = vdupq_n_u8(static_cast<std::uint8_t>(sign));
      if constexpr (UnsignedZero)
        store(out, vorrq_u8(lows, vandq_u8(vshlq_u8(tops, down), vandq_u8(mask, vtstq_u8(lows, lows)))));
      else store(out, vbslq_u8(mask, vshlq_u8(tops, down), lows));
    }
    return;
  }
#endif
  for (int k = 0; k < 4; ++k) {
    const WordLanes signs = (x[k] >> shift) & sign;
    magnitudes[k] |= UnsignedZero ? signs & std::bit_cast<WordLanes>(magnitudes[k] != 0) : signs;
  }
  store_narrow(out, magnitudes);
}

}  // namespace narrow::detail
