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

inline void widen(WordLanes x, DoubleLanes (&d)[2]) noexcept {
#if defined(__ARM_NEON)
  d[0] = as<DoubleLanes>(vcvt_f64_f32(vget_low_f32(as<float32x4_t>(x))));
  d[1] = as<DoubleLanes>(vcvt_high_f64_f32(as<float32x4_t>(x)));
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
#elif defined(NARROW_LANES_AVX2) || defined(NARROW_LANES_AVX512) || !defined(__SSE2__)
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
