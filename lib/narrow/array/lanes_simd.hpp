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
inline WordLanes differs(FloatLanes a, FloatLanes b) noexcept { return std::bit_cast<WordLanes>(a != b); }
inline WordLanes select(WordLanes mask, WordLanes yes, WordLanes no) noexcept { return (mask & yes) | (~mask & no); }
inline WordLanes larger(WordLanes a, WordLanes b) noexcept {
  const auto x = std::bit_cast<IntLanes>(a), y = std::bit_cast<IntLanes>(b);
  return std::bit_cast<WordLanes>(x > y ? x : y);
}
inline WordLanes smaller(WordLanes a, WordLanes b) noexcept {
  const auto x = std::bit_cast<IntLanes>(a), y = std::bit_cast<IntLanes>(b);
  return std::bit_cast<WordLanes>(x < y ? x : y);
}

// |x| as a word: one instruction on ARM, where the compilers make two of the and.
inline WordLanes magnitude(WordLanes x) noexcept {
#if defined(__ARM_NEON)
  return std::bit_cast<WordLanes>(vabsq_f32(std::bit_cast<float32x4_t>(x)));
#else
  return x & 0x7FFFFFFFu;
#endif
}
inline WordLanes negative_mask(WordLanes x) noexcept { return std::bit_cast<WordLanes>(std::bit_cast<IntLanes>(x) >> 31); }

inline bool any(WordLanes mask) noexcept {
  const auto words = std::bit_cast<std::array<std::uint64_t, lane_count / 2>>(mask);
  std::uint64_t all = 0;
  for (const std::uint64_t word : words) all |= word;
  return all != 0;
}

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

// Four vectors of words to one row of narrower elements: the low part of each word.
template <class Out>
void store_narrow(Out* out, const WordLanes (&x)[4]) noexcept {
  if constexpr (sizeof(Out) == 4) {
    for (int k = 0; k < 4; ++k) store(out + k * lane_count, x[k]);
  } else {
#if defined(__ARM_NEON)
    const auto halves = [](WordLanes a, WordLanes b) {
      return vuzp1q_u16(std::bit_cast<uint16x8_t>(a), std::bit_cast<uint16x8_t>(b));
    };
    const uint16x8_t low = halves(x[0], x[1]), high = halves(x[2], x[3]);
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

}  // namespace narrow::detail
