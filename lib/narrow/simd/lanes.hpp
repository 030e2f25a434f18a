// Lanes: short vectors of floats and integers, as wide as the registers of the target that a file is compiled for. Every
// operation is the IEEE or two's complement one of its element, so that lanes and scalars give the same bits on every target.
//
// A file that includes this is compiled once a target, with that target's instructions: NARROW_LANES names it. So all that
// it defines must lie in namespaces of that name, and it may call no inline function from elsewhere: the linker keeps one
// copy of such a function for the whole program, and that one may have instructions that the machine lacks. (A test looks
// at the symbols.)
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__SSE2__)
#include <immintrin.h>
#endif

#ifndef NARROW_LANES
#error "compiled by narrow_lanes() of CMake alone"
#endif

namespace narrow::detail::inline NARROW_LANES {

#if defined(NARROW_LANES_AVX512)
inline constexpr int lane_count = 16;
#elif defined(NARROW_LANES_AVX2)
inline constexpr int lane_count = 8;
#else
inline constexpr int lane_count = 4;
#endif
inline constexpr int lane_bytes = 4 * lane_count;

// N lanes of T, for widths of its own.
template <class T, int N>
struct LanesOf {
  typedef T Type __attribute__((vector_size(sizeof(T) * N)));
};
template <class T, int N>
using Lanes = typename LanesOf<T, N>::Type;

typedef float FloatLanes __attribute__((vector_size(lane_bytes)));
typedef uint32_t WordLanes __attribute__((vector_size(lane_bytes)));
typedef int32_t IntLanes __attribute__((vector_size(lane_bytes)));
typedef uint16_t HalfLanes __attribute__((vector_size(lane_bytes / 2)));  // one for each word
typedef uint16_t HalfRow __attribute__((vector_size(lane_bytes)));        // a full register
typedef int16_t SignedRow __attribute__((vector_size(lane_bytes)));
typedef uint8_t ByteRow __attribute__((vector_size(lane_bytes)));
typedef uint64_t LongLanes __attribute__((vector_size(lane_bytes)));
typedef int64_t QuantaLanes __attribute__((vector_size(lane_bytes)));
typedef double DoubleLanes __attribute__((vector_size(lane_bytes)));
typedef float FloatPart __attribute__((vector_size(lane_bytes / 2)));  // as many as there are doubles
typedef int32_t IntPart __attribute__((vector_size(lane_bytes / 2)));

template <class To, class From>
inline To as(const From& x) noexcept {
  return __builtin_bit_cast(To, x);
}

inline WordLanes splat(uint32_t x) noexcept { return WordLanes{} + x; }
inline FloatLanes splat_float(float x) noexcept { return x - FloatLanes{}; }  // -0 - 0 is -0, but -0 + 0 is 0
inline FloatLanes as_float(WordLanes x) noexcept { return as<FloatLanes>(x); }
inline WordLanes as_words(FloatLanes x) noexcept { return as<WordLanes>(x); }

template <class Vector, class T>
inline Vector load_as(const T* from) noexcept {
  Vector x;
  __builtin_memcpy(&x, from, sizeof x);
  return x;
}
inline WordLanes load(const float* from) noexcept { return load_as<WordLanes>(from); }
template <class Vector, class T>
inline void store(T* to, Vector x) noexcept {
  __builtin_memcpy(to, &x, sizeof x);
}

// How many elements to write one by one, so that registers written after them do not cross lines of the cache: the wide ones
// would all cross. For short arrays it is not worth it.
template <class T>
inline size_t ahead_of_lines(const T* to, size_t count) noexcept {
  constexpr size_t width = lane_count * sizeof(T);
  const size_t beyond = reinterpret_cast<uintptr_t>(to) % width;
  return width <= 16 || count < 4096 || beyond == 0 ? 0 : (width - beyond) / sizeof(T);
}

// [begin, end) in whole blocks: blocks(i) goes on from i to one that is not for lanes, or to the last whole one, and returns
// where it stopped; the first `head` elements, such blocks and the tail are for one_by_one(i, stop).
template <class Blocks, class OneByOne>
inline void in_blocks(size_t begin, size_t head, size_t end, size_t block, const Blocks& blocks, const OneByOne& one_by_one) noexcept {
  one_by_one(begin, begin + head);
  for (size_t i = begin + head, stop = i; stop != end; i = stop) {
    i = blocks(i);
    stop = end - i > block ? i + block : end;
    one_by_one(i, stop);
  }
}

// Asks for what comes 2 KB after these bytes: the prefetching of x86 ends with a page, and nearly half of the speed with it;
// that of ARM does well alone.
inline void ask_ahead([[maybe_unused]] const void* from, [[maybe_unused]] size_t bytes) noexcept {
#if defined(__SSE2__)
  for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(from) + at + 2048);
#endif
}

// Masks are all ones or all zeros in a lane. Magnitudes are below 2^31, so the signed comparison, which every machine
// has, orders them.
inline WordLanes above(WordLanes a, WordLanes b) noexcept { return as<WordLanes>(as<IntLanes>(a) > as<IntLanes>(b)); }
inline WordLanes above(FloatLanes a, FloatLanes b) noexcept { return as<WordLanes>(a > b); }
inline WordLanes equal(FloatLanes a, FloatLanes b) noexcept { return as<WordLanes>(a == b); }
inline WordLanes equal(WordLanes a, uint32_t b) noexcept { return as<WordLanes>(a == b); }
inline WordLanes select(WordLanes mask, WordLanes yes, WordLanes no) noexcept { return (mask & yes) | (~mask & no); }
inline WordLanes larger(WordLanes a, WordLanes b) noexcept {
  const auto x = as<IntLanes>(a), y = as<IntLanes>(b);
  return as<WordLanes>(x > y ? x : y);
}
inline WordLanes smaller(WordLanes a, WordLanes b) noexcept {
  const auto x = as<IntLanes>(a), y = as<IntLanes>(b);
  return as<WordLanes>(x < y ? x : y);
}
inline WordLanes lesser_unsigned(WordLanes a, WordLanes b) noexcept { return a < b ? a : b; }

// |x| as a word: one instruction on ARM, where the compilers make two of the and.
inline WordLanes magnitude(WordLanes x) noexcept {
#if defined(__ARM_NEON)
  return as<WordLanes>(vabsq_f32(as<float32x4_t>(x)));
#else
  return x & 0x7FFFFFFFu;
#endif
}
inline WordLanes negative_mask(WordLanes x) noexcept { return as<WordLanes>(as<IntLanes>(x) < 0); }

// Whether some bit of a mask is set.
inline bool any(WordLanes mask) noexcept {
#if defined(__ARM_NEON)
  return vmaxvq_u32(as<uint32x4_t>(mask)) != 0;
#elif defined(NARROW_LANES_AVX512)
  return _mm512_test_epi32_mask(as<__m512i>(mask), as<__m512i>(mask)) != 0;
#elif defined(NARROW_LANES_AVX2)
  return _mm256_testz_si256(as<__m256i>(mask), as<__m256i>(mask)) == 0;
#else
  typedef uint64_t Halves __attribute__((vector_size(16)));
  const auto halves = as<Halves>(mask);
  return (halves[0] | halves[1]) != 0;
#endif
}
// Whether some lane, a magnitude, is above the limit.
inline bool any_above(WordLanes x, uint32_t limit) noexcept {
#if defined(__ARM_NEON)
  return vmaxvq_u32(as<uint32x4_t>(x)) > limit;
#else
  return any(above(x, splat(limit)));
#endif
}
inline uint32_t largest_lane(WordLanes x) noexcept {
  uint32_t top = 0;
  for (int k = 0; k < lane_count; ++k) top = x[k] > top ? x[k] : top;
  return top;
}

// x cut to [-below, above], for x that is no NaN; the limits are magnitude words.
inline WordLanes clamp(WordLanes x, uint32_t below, uint32_t above_zero) noexcept {
  const FloatLanes high = as_float(splat(above_zero)), low = as_float(splat(below | 0x80000000u));
  const FloatLanes v = as_float(x);
#if defined(__ARM_NEON)
  return as<WordLanes>(vmaxq_f32(vminq_f32(as<float32x4_t>(v), as<float32x4_t>(high)), as<float32x4_t>(low)));
#else
  const FloatLanes cut = v > high ? high : v;
  return as_words(cut < low ? low : cut);
#endif
}

// a + b * c with one rounding, where the target has the instruction.
inline FloatLanes fused(FloatLanes a, FloatLanes b, FloatLanes c) noexcept {
#if defined(__ARM_NEON)
  return as<FloatLanes>(vfmaq_f32(as<float32x4_t>(a), as<float32x4_t>(b), as<float32x4_t>(c)));
#elif defined(NARROW_LANES_AVX512)
  return as<FloatLanes>(_mm512_fmadd_ps(as<__m512>(b), as<__m512>(c), as<__m512>(a)));
#elif defined(NARROW_LANES_AVX2)
  return as<FloatLanes>(_mm256_fmadd_ps(as<__m256>(b), as<__m256>(c), as<__m256>(a)));
#else
  for (int k = 0; k < lane_count; ++k) a[k] = __builtin_fmaf(b[k], c[k], a[k]);
  return a;
#endif
}

// a + b * c of doubles whose product is exact, so that one rounding or two is the same.
inline DoubleLanes add_product(DoubleLanes a, DoubleLanes b, DoubleLanes c) noexcept {
#if defined(__ARM_NEON)
  return as<DoubleLanes>(vfmaq_f64(as<float64x2_t>(a), as<float64x2_t>(b), as<float64x2_t>(c)));
#elif defined(NARROW_LANES_AVX512)
  return as<DoubleLanes>(_mm512_fmadd_pd(as<__m512d>(b), as<__m512d>(c), as<__m512d>(a)));
#elif defined(NARROW_LANES_AVX2)
  return as<DoubleLanes>(_mm256_fmadd_pd(as<__m256d>(b), as<__m256d>(c), as<__m256d>(a)));
#else
  return a + b * c;
#endif
}

// The same with one rounding of any product.
inline DoubleLanes fused(DoubleLanes a, DoubleLanes b, DoubleLanes c) noexcept {
#if defined(__ARM_NEON) || defined(NARROW_LANES_AVX512) || defined(NARROW_LANES_AVX2)
  return add_product(a, b, c);
#else
  for (int k = 0; k < lane_count / 2; ++k) a[k] = __builtin_fma(b[k], c[k], a[k]);
  return a;
#endif
}

inline void widen(WordLanes x, DoubleLanes (&d)[2]) noexcept {
#if defined(__ARM_NEON)
  d[0] = as<DoubleLanes>(vcvt_f64_f32(vget_low_f32(as<float32x4_t>(x))));
  d[1] = as<DoubleLanes>(vcvt_high_f64_f32(as<float32x4_t>(x)));
#elif defined(NARROW_LANES_AVX512)  // the compiler would go by quarters
  const auto low = _mm512_castps512_ps256(as<__m512>(x)), high = _mm512_extractf32x8_ps(as<__m512>(x), 1);
  d[0] = as<DoubleLanes>(_mm512_cvtps_pd(low)), d[1] = as<DoubleLanes>(_mm512_cvtps_pd(high));
#else
  FloatPart parts[2];
  __builtin_memcpy(parts, &x, sizeof x);
  d[0] = __builtin_convertvector(parts[0], DoubleLanes), d[1] = __builtin_convertvector(parts[1], DoubleLanes);
#endif
}

// Sixteen signed bytes as words.
inline void widen_bytes(const int8_t (&x)[16], IntLanes (&out)[16 / lane_count]) noexcept {
#if defined(__ARM_NEON)
  const int8x16_t bytes = vld1q_s8(x);
  const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
  out[0] = as<IntLanes>(vmovl_s16(vget_low_s16(low))), out[1] = as<IntLanes>(vmovl_high_s16(low));
  out[2] = as<IntLanes>(vmovl_s16(vget_low_s16(high))), out[3] = as<IntLanes>(vmovl_high_s16(high));
#elif defined(NARROW_LANES_AVX2)  // the compiler would move the upper ones byte by byte
  const __m128i bytes = load_as<__m128i>(x);
  out[0] = as<IntLanes>(_mm256_cvtepi8_epi32(bytes)), out[1] = as<IntLanes>(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)));
#elif defined(NARROW_LANES_AVX512) || !defined(__SSE2__)
  using Part = Lanes<int8_t, lane_count>;
  for (int v = 0; v < 16 / lane_count; ++v) out[v] = __builtin_convertvector(load_as<Part>(x + v * lane_count), IntLanes);
#else  // each byte four times over, and moved down
  const __m128i bytes = load_as<__m128i>(x), low = _mm_unpacklo_epi8(bytes, bytes), high = _mm_unpackhi_epi8(bytes, bytes);
  out[0] = as<IntLanes>(_mm_srai_epi32(_mm_unpacklo_epi16(low, low), 24));
  out[1] = as<IntLanes>(_mm_srai_epi32(_mm_unpackhi_epi16(low, low), 24));
  out[2] = as<IntLanes>(_mm_srai_epi32(_mm_unpacklo_epi16(high, high), 24));
  out[3] = as<IntLanes>(_mm_srai_epi32(_mm_unpackhi_epi16(high, high), 24));
#endif
}

// Exponents of sixteen columns, a few k side by side as B has them: 64 bytes, four k of bytes or two of 16 bits.
template <class E>
inline constexpr int group_of = 4 / sizeof(E);
template <class E>
using GroupRow = Lanes<E, lane_bytes / sizeof(E)>;
inline constexpr int group_rows = 64 / lane_bytes;

#if defined(NARROW_LANES_AVX2) || defined(NARROW_LANES_AVX512)
inline constexpr bool has_group_lanes = true;

// Which byte of four each of 64 takes, so that the exponent of k stands in the columns of k.
template <class E>
struct GroupOrder {
  uint8_t from[64];
  constexpr GroupOrder() : from() {
    for (unsigned i = 0; i < 64; ++i) from[i] = static_cast<uint8_t>(sizeof(E) == 1 ? i / 16 : i / 32 * 2 + i % 2);
  }
};
template <class E>
alignas(64) inline constexpr GroupOrder<E> group_order{};

// Of that many exponents of A each in sixteen columns: row r.
template <class E>
inline GroupRow<E> spread_group(const E* x, int r) noexcept {
  int32_t word;
  __builtin_memcpy(&word, x, sizeof word);
  const uint8_t* from = group_order<E>.from + lane_bytes * r;
#if defined(NARROW_LANES_AVX512)
  return as<GroupRow<E>>(_mm512_shuffle_epi8(_mm512_set1_epi32(word), load_as<__m512i>(from)));
#else
  return as<GroupRow<E>>(_mm256_shuffle_epi8(_mm256_set1_epi32(word), load_as<__m256i>(from)));
#endif
}
// The largest of each column as words.
template <class E>
inline void largest_of_groups(const GroupRow<E> (&x)[group_rows], IntLanes (&out)[16 / lane_count]) noexcept {
#if defined(NARROW_LANES_AVX512)
  const __m256i low = _mm512_castsi512_si256(as<__m512i>(x[0])), high = _mm512_extracti64x4_epi64(as<__m512i>(x[0]), 1);
#else
  const __m256i low = as<__m256i>(x[0]), high = as<__m256i>(x[1]);
#endif
  const __m256i both = sizeof(E) == 1 ? _mm256_max_epi8(low, high) : _mm256_max_epi16(low, high);
  const __m128i first = _mm256_castsi256_si128(both), second = _mm256_extracti128_si256(both, 1);
  const __m128i bytes = _mm_max_epi8(first, second);
#if defined(NARROW_LANES_AVX512)
  out[0] = as<IntLanes>(sizeof(E) == 1 ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepi16_epi32(both));
#else
  out[0] = as<IntLanes>(sizeof(E) == 1 ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepi16_epi32(first));
  out[1] = as<IntLanes>(sizeof(E) == 1 ? _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)) : _mm256_cvtepi16_epi32(second));
#endif
}
#else
inline constexpr bool has_group_lanes = false;
template <class E>
GroupRow<E> spread_group(const E* x, int r) noexcept;  // never asked
template <class E>
void largest_of_groups(const GroupRow<E> (&x)[group_rows], IntLanes (&out)[16 / lane_count]) noexcept;
#endif

// Integers below 2^31 - 64 as floats, cut toward zero: the nearest float, or the one before it where that is farther out.
inline FloatLanes cut_to_float(IntLanes x) noexcept {
#if defined(NARROW_LANES_AVX512)
  return as<FloatLanes>(_mm512_cvt_roundepi32_ps(as<__m512i>(x), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC));
#else
  const FloatLanes nearest = __builtin_convertvector(x, FloatLanes);
  const IntLanes back = __builtin_convertvector(nearest, IntLanes);
  const IntLanes beyond = (back ^ (x >> 31)) > (x ^ (x >> 31));  // |back| > |x|, by one's complement
  return as<FloatLanes>(as<IntLanes>(nearest) + beyond);
#endif
}

// |x| below the float with that word; false for NaN.
inline WordLanes is_smaller(WordLanes x, uint32_t word) noexcept {
#if defined(__ARM_NEON)
  return as<WordLanes>(vcagtq_f32(vreinterpretq_f32_u32(vdupq_n_u32(word)), as<float32x4_t>(x)));
#else
  return above(splat(word), magnitude(x));
#endif
}

// z * factor in 64 bits.
inline LongLanes multiply(LongLanes z, uint64_t factor) noexcept {
#if defined(__ARM_NEON)
  // zl fl + ((zl fh + zh fl) << 32): ARM multiplies 32 bits in lanes.
  const uint32x4_t crossed = vreinterpretq_u32_u64(vdupq_n_u64(factor << 32 | factor >> 32));
  const uint64x2_t upper = vshlq_n_u64(vpaddlq_u32(vmulq_u32(as<uint32x4_t>(z), crossed)), 32);
  return as<LongLanes>(vmlal_u32(upper, vmovn_u64(as<uint64x2_t>(z)), vdup_n_u32(static_cast<uint32_t>(factor))));
#else
  return z * factor;
#endif
}

// The low words of random_bits(seed, index) of base/random.hpp for lane_count indices from there on.
inline WordLanes random_words(uint64_t seed, uint64_t index) noexcept {
  constexpr uint64_t step = 0x9E3779B97F4A7C15ull;
  constexpr int longs = lane_count / 2;
  const uint64_t first = seed + (index + 1) * step;
  LongLanes at[2];
  for (int k = 0; k < longs; ++k) at[0][k] = static_cast<uint64_t>(k) * step, at[1][k] = static_cast<uint64_t>(k + longs) * step;
  for (LongLanes& z : at) {
    z += first;
    z = multiply(z ^ (z >> 30), 0xBF58476D1CE4E5B9ull);
    z = multiply(z ^ (z >> 27), 0x94D049BB133111EBull);
    z ^= z >> 31;
  }
#if defined(__ARM_NEON)
  return as<WordLanes>(vuzp1q_u32(as<uint32x4_t>(at[0]), as<uint32x4_t>(at[1])));
#elif defined(NARROW_LANES_AVX512)
  return as<WordLanes>(_mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(as<__m512i>(at[0]))),
                                          _mm512_cvtepi64_epi32(as<__m512i>(at[1])), 1));
#elif defined(NARROW_LANES_AVX2)
  const __m256 even = _mm256_shuffle_ps(as<__m256>(at[0]), as<__m256>(at[1]), 0x88);  // 0 1 4 5 2 3 6 7
  return as<WordLanes>(_mm256_permute4x64_epi64(as<__m256i>(even), 0xD8));
#elif defined(__SSE2__)
  return as<WordLanes>(_mm_shuffle_ps(as<__m128>(at[0]), as<__m128>(at[1]), 0x88));
#else
  WordLanes words;
  for (int k = 0; k < longs; ++k) words[k] = static_cast<uint32_t>(at[0][k]), words[k + longs] = static_cast<uint32_t>(at[1][k]);
  return words;
#endif
}

// Rounding to an integer in a direction, with the sign kept also on zero, where the CPU has an instruction for it.
#if defined(__ARM_NEON)
inline constexpr bool has_integral_lanes = true;
inline FloatLanes integral_up(FloatLanes x) noexcept { return as<FloatLanes>(vrndpq_f32(as<float32x4_t>(x))); }
inline FloatLanes integral_down(FloatLanes x) noexcept { return as<FloatLanes>(vrndmq_f32(as<float32x4_t>(x))); }
inline FloatLanes integral_away(FloatLanes x) noexcept { return as<FloatLanes>(vrndaq_f32(as<float32x4_t>(x))); }
#else
inline constexpr bool has_integral_lanes = false;
inline FloatLanes integral_up(FloatLanes x) noexcept { return x; }  // never asked
inline FloatLanes integral_down(FloatLanes x) noexcept { return x; }
inline FloatLanes integral_away(FloatLanes x) noexcept { return x; }
#endif

}  // namespace narrow::detail::inline NARROW_LANES
