// Words of 32 bits in lanes, narrowed to sixteen and widened to 64.
#pragma once

#include "narrow/simd/lanes.hpp"

namespace narrow::detail::inline NARROW_LANES {

// Two registers of words, whose sixteen lower bits share one.
struct TwoWords {
  WordLanes of[2];
};

inline HalfRow low_halves(const TwoWords& x) noexcept {
#if defined(__ARM_NEON)
  return as<HalfRow>(vuzp1q_u16(as<uint16x8_t>(x.of[0]), as<uint16x8_t>(x.of[1])));
#else
  return as<HalfRow>((x.of[0] & 0xFFFFu) | x.of[1] << 16);
#endif
}
inline TwoWords words_of(HalfRow x) noexcept {
#if defined(__ARM_NEON)
  return {
      {as<WordLanes>(vmovl_u16(vget_low_u16(as<uint16x8_t>(x)))), as<WordLanes>(vmovl_high_u16(as<uint16x8_t>(x)))}};
#else
  const auto pairs = as<WordLanes>(x);
  return {{pairs & 0xFFFFu, pairs >> 16}};
#endif
}

// Words as 64 bits: in the order in which the target widens them.
struct WideLanes {
  LongLanes part[2];
};

inline WideLanes widen_words(WordLanes x) noexcept {
#if defined(__ARM_NEON)
  return {
      {as<LongLanes>(vmovl_u32(vget_low_u32(as<uint32x4_t>(x)))), as<LongLanes>(vmovl_high_u32(as<uint32x4_t>(x)))}};
#else
  const auto pairs = as<LongLanes>(x);
  return {{pairs & 0xFFFFFFFFu, pairs >> 32}};
#endif
}
inline WordLanes low_words(const WideLanes& x) noexcept {
#if defined(__ARM_NEON)
  return as<WordLanes>(vuzp1q_u32(as<uint32x4_t>(x.part[0]), as<uint32x4_t>(x.part[1])));
#else
  return as<WordLanes>((x.part[0] & 0xFFFFFFFFu) | x.part[1] << 32);
#endif
}
// The words from bit n on.
template <int n>
inline WordLanes words_from(const WideLanes& x) noexcept {
#if defined(__ARM_NEON)
  return as<WordLanes>(vshrn_high_n_u64(vshrn_n_u64(as<uint64x2_t>(x.part[0]), n), as<uint64x2_t>(x.part[1]), n));
#else
  return low_words({{x.part[0] >> n, x.part[1] >> n}});
#endif
}
inline WideLanes multiply_words(WordLanes a, WordLanes b) noexcept {
#if defined(__ARM_NEON)
  const auto x = as<uint32x4_t>(a), y = as<uint32x4_t>(b);
  return {{as<LongLanes>(vmull_u32(vget_low_u32(x), vget_low_u32(y))), as<LongLanes>(vmull_high_u32(x, y))}};
#else
  const WideLanes x = widen_words(a), y = widen_words(b);
#if defined(NARROW_LANES_AVX512)
  return {{as<LongLanes>(_mm512_mul_epu32(as<__m512i>(x.part[0]), as<__m512i>(y.part[0]))),
           as<LongLanes>(_mm512_mul_epu32(as<__m512i>(x.part[1]), as<__m512i>(y.part[1])))}};
#elif defined(NARROW_LANES_AVX2)
  return {{as<LongLanes>(_mm256_mul_epu32(as<__m256i>(x.part[0]), as<__m256i>(y.part[0]))),
           as<LongLanes>(_mm256_mul_epu32(as<__m256i>(x.part[1]), as<__m256i>(y.part[1])))}};
#elif defined(__SSE2__)
  return {{as<LongLanes>(_mm_mul_epu32(as<__m128i>(x.part[0]), as<__m128i>(y.part[0]))),
           as<LongLanes>(_mm_mul_epu32(as<__m128i>(x.part[1]), as<__m128i>(y.part[1])))}};
#else
  return {{x.part[0] * y.part[0], x.part[1] * y.part[1]}};
#endif
#endif
}

// The lower and the upper word of rows[row] for each lane. AVX2 has gathers too; qemu 7.2, where this is tested on
// other machines, takes the fifth register for no index.
inline void gather_words(const uint64_t* rows, WordLanes row, WordLanes& lower, WordLanes& upper) noexcept {
#if defined(NARROW_LANES_AVX512)
  const auto* words = reinterpret_cast<const int*>(rows);
  lower = as<WordLanes>(_mm512_i32gather_epi32(as<__m512i>(row), words, 8));
  upper = as<WordLanes>(_mm512_i32gather_epi32(as<__m512i>(row), words + 1, 8));
#elif defined(__ARM_NEON)
  const uint64x2_t low{rows[row[0]], rows[row[1]]}, high{rows[row[2]], rows[row[3]]};
  lower = as<WordLanes>(vuzp1q_u32(vreinterpretq_u32_u64(low), vreinterpretq_u32_u64(high)));
  upper = as<WordLanes>(vuzp2q_u32(vreinterpretq_u32_u64(low), vreinterpretq_u32_u64(high)));
#else
  for (int k = 0; k < lane_count; ++k) {
    const uint64_t both = rows[row[k]];
    lower[k] = static_cast<uint32_t>(both), upper[k] = static_cast<uint32_t>(both >> 32);
  }
#endif
}

}  // namespace narrow::detail::inline NARROW_LANES
