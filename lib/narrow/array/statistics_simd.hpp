// Sums and counts over a block of at most 2048 floats. Eight accumulators by index modulo 8, on every machine, so that
// the sums have the same bits everywhere.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "narrow/array/lanes_simd.hpp"

namespace narrow::detail {

inline constexpr std::size_t statistics_block = 1024;
inline constexpr int group_vectors = 8 / lane_count;

typedef double DoubleLanes __attribute__((vector_size(16)));  // two doubles: the widest that every machine has

// Written out, because an array of accumulators is not always kept in registers.
struct DoubleGroup {
  DoubleLanes pair[4] = {};

  void add(const DoubleGroup& d) noexcept {
    pair[0] += d.pair[0], pair[1] += d.pair[1], pair[2] += d.pair[2], pair[3] += d.pair[3];
  }
  void add_squares(const DoubleGroup& d) noexcept {
    pair[0] += d.pair[0] * d.pair[0], pair[1] += d.pair[1] * d.pair[1];
    pair[2] += d.pair[2] * d.pair[2], pair[3] += d.pair[3] * d.pair[3];
  }
  // For doubles that are floats: their squares have 48 bits and are exact, so one rounding or two is the same.
  void add_float_squares(const DoubleGroup& d) noexcept {
#if defined(__ARM_NEON)
    for (int k = 0; k < 4; ++k) {
      const auto v = std::bit_cast<float64x2_t>(d.pair[k]);
      pair[k] = std::bit_cast<DoubleLanes>(vfmaq_f64(std::bit_cast<float64x2_t>(pair[k]), v, v));
    }
#else
    add_squares(d);
#endif
  }
  void subtract(const DoubleGroup& d) noexcept {
    pair[0] -= d.pair[0], pair[1] -= d.pair[1], pair[2] -= d.pair[2], pair[3] -= d.pair[3];
  }
  void scale(double factor) noexcept { pair[0] *= factor, pair[1] *= factor, pair[2] *= factor, pair[3] *= factor; }

  double total() const noexcept {  // a fixed tree
    const DoubleLanes sum = (pair[0] + pair[1]) + (pair[2] + pair[3]);
    return sum[0] + sum[1];
  }
};

// Eight floats as doubles.
inline DoubleGroup widen(const WordLanes (&x)[group_vectors]) noexcept {
  DoubleGroup d;
#if defined(__ARM_NEON)
  const auto low = std::bit_cast<float32x4_t>(x[0]), high = std::bit_cast<float32x4_t>(x[1]);
  d.pair[0] = std::bit_cast<DoubleLanes>(vcvt_f64_f32(vget_low_f32(low)));
  d.pair[1] = std::bit_cast<DoubleLanes>(vcvt_high_f64_f32(low));
  d.pair[2] = std::bit_cast<DoubleLanes>(vcvt_f64_f32(vget_low_f32(high)));
  d.pair[3] = std::bit_cast<DoubleLanes>(vcvt_high_f64_f32(high));
#else
  float values[8];
  std::memcpy(values, x, sizeof values);
  for (int k = 0; k < 4; ++k) d.pair[k] = DoubleLanes{static_cast<double>(values[2 * k]), static_cast<double>(values[2 * k + 1])};
#endif
  return d;
}

// |x| below the float with that word; false for NaN.
inline WordLanes is_smaller(WordLanes x, std::uint32_t word) noexcept {
#if defined(__ARM_NEON)
  return std::bit_cast<WordLanes>(vcagtq_f32(vreinterpretq_f32_u32(vdupq_n_u32(word)), std::bit_cast<float32x4_t>(x)));
#else
  return above(splat(word), magnitude(x));
#endif
}

inline std::uint64_t total_count(WordLanes negative_counts) noexcept {
  std::uint64_t sum = 0;
  for (int k = 0; k < lane_count; ++k) sum += 0u - negative_counts[k];
  return sum;
}

// What the input pass finds in a block of n elements, n a multiple of 8.
struct BlockInput {
  std::uint32_t top = 0;           // largest magnitude word, NaN and Inf included
  std::uint32_t least = ~0u;       // smallest non-zero magnitude word; ~0 when there is none
  std::uint64_t zeros = 0;
  double sum = 0;
};

inline BlockInput scan_block(const float* x, std::size_t n) noexcept {
  WordLanes top{}, least = splat(~0u), zeros{};
  DoubleGroup sum;
  for (std::size_t i = 0; i < n; i += 8) {
    WordLanes word[group_vectors];
    for (int v = 0; v < group_vectors; ++v) {
      word[v] = load(x + i + static_cast<std::size_t>(v * lane_count));
      const WordLanes a = magnitude(word[v]);
      top = larger(top, a);
      // One less turns zero into the largest word of all, so that the smallest of the rest remains.
      least = lesser_unsigned(least, a - 1);
      zeros += std::bit_cast<WordLanes>(a == 0);
    }
    sum.add(widen(word));
  }
  BlockInput b;
  for (int k = 0; k < lane_count; ++k) {
    b.top = top[k] > b.top ? top[k] : b.top;
    b.least = least[k] < b.least - 1 ? least[k] + 1 : b.least;
  }
  b.zeros = total_count(zeros);
  b.sum = sum.total();
  return b;
}

inline double sum_squares(const float* x, std::size_t n) noexcept {
  DoubleGroup squares;
  for (std::size_t i = 0; i < n; i += 8) {
    WordLanes word[group_vectors];
    for (int v = 0; v < group_vectors; ++v) word[v] = load(x + i + static_cast<std::size_t>(v * lane_count));
    squares.add_float_squares(widen(word));
  }
  return squares.total();
}

// Non-finite elements become zero, in place.
struct NonFinite {
  std::uint64_t nan = 0, inf = 0;
};
inline NonFinite clear_non_finite(float* x, std::size_t n) noexcept {
  WordLanes nan{}, inf{};
  for (std::size_t i = 0; i < n; i += lane_count) {
    const WordLanes word = load(x + i), a = magnitude(word);
    nan += above(a, splat(0x7F800000));
    inf += std::bit_cast<WordLanes>(a == 0x7F800000u);
    store(x + i, word & above(splat(0x7F800000), a));
  }
  return {total_count(nan), total_count(inf)};
}

struct Beyond {
  std::uint64_t overflow = 0, saturated = 0;
};
// Finite data whose scaled magnitude is above the word for its sign, and how many of these have a finite result.
inline Beyond count_overflow(const float* s, const float* r, std::size_t n, const std::uint32_t (&last_in_range)[2]) noexcept {
  WordLanes overflow{}, saturated{};
  for (std::size_t i = 0; i < n; i += lane_count) {
    const WordLanes word = load(s + i);
    const WordLanes limit = select(negative_mask(word), splat(last_in_range[1]), splat(last_in_range[0]));
    const WordLanes beyond = above(magnitude(word), limit);
    overflow += beyond;
    saturated += beyond & above(splat(0x7F800000), magnitude(load(r + i)));
  }
  return {total_count(overflow), total_count(saturated)};
}

// What the comparison of a block with its rounded values finds. Elements whose result is not finite count as dropped and
// add nothing else.
struct BlockErrors {
  std::uint64_t zeros_after = 0, below_normal = 0;  // below_normal counts the zeros too
  std::uint64_t dropped = 0;
  double squared_error = 0;
  double signal = 0;   // sum of squares of the compared (only when masked)
  bool worse = false;  // some relative error exceeds the one given
};

struct BlockToCompare {
  const float* x;  // the data
  const float* s;  // scaled
  const float* r;  // scaled and rounded
  std::size_t size;
  std::uint32_t normal_word;
  float relative;  // the largest relative error so far
  double inverse;  // 1 / scale
};

// How the error is computed. Exact: r - s is a float, because r is a neighbour of s (or zero) and no saturated value; the
// sums are in units of the scale. Otherwise r / scale - x in double.
enum class Difference : std::uint8_t { exact, general };

// Masked: some results may not be finite. Relative: look for larger relative errors.
template <Difference D, bool Masked, bool Relative>
BlockErrors compare_block(const BlockToCompare& b) noexcept {
  WordLanes zeros{}, low{}, worse{}, kept{};
  DoubleGroup errors, signal;
  for (std::size_t i = 0; i < b.size; i += 8) {
    WordLanes xs[group_vectors], rs[group_vectors];
    for (int v = 0; v < group_vectors; ++v) {
      const std::size_t at = i + static_cast<std::size_t>(v * lane_count);
      WordLanes sw = load(b.s + at), rw = load(b.r + at), xw = D == Difference::exact ? sw : load(b.x + at);
      zeros += std::bit_cast<WordLanes>(as_float(rw) == 0.0f);
      low += is_smaller(rw, b.normal_word);
      if constexpr (Masked) {
        const WordLanes keep = is_smaller(rw, 0x7F800000);
        kept += keep;
        sw &= keep, rw &= keep, xw = D == Difference::exact ? sw : xw & keep;
      }
      const WordLanes error = as_words(as_float(rw) - as_float(sw));
      if constexpr (Relative) worse |= above(as_float(magnitude(error)), as_float(magnitude(sw)) * b.relative);
      xs[v] = xw, rs[v] = D == Difference::exact ? error : rw;
    }
    __builtin_prefetch(b.s + i + statistics_block);  // the next block, while the memory is idle
    DoubleGroup error = widen(rs);
    if constexpr (D == Difference::general) {
      error.scale(b.inverse);
      error.subtract(widen(xs));
    }
    if constexpr (D == Difference::exact) errors.add_float_squares(error);
    else errors.add_squares(error);
    if constexpr (Masked) signal.add_float_squares(widen(xs));
  }
  const double unit = D == Difference::exact ? b.inverse * b.inverse : 1;
  const std::uint64_t dropped = Masked ? b.size - total_count(kept) : 0;
  return {total_count(zeros), total_count(low), dropped, errors.total() * unit, signal.total() * unit, any(worse)};
}

// The largest |r - s| / |s| of the elements with s not zero and r finite, rounded to float.
inline float largest_relative_error(const float* s, const float* r, std::size_t n) noexcept {
  WordLanes top{};
  for (std::size_t i = 0; i < n; i += lane_count) {
    const WordLanes sw = load(s + i), rw = load(r + i), a = magnitude(sw);
    const WordLanes keep = above(splat(0x7F800000), magnitude(rw)) & above(a, WordLanes{});
    const WordLanes error = magnitude(as_words(as_float(rw) - as_float(sw)));
    top = larger(top, as_words(as_float(error) / as_float(a)) & keep);
  }
  float largest = 0;
  for (int k = 0; k < lane_count; ++k) largest = std::max(largest, std::bit_cast<float>(std::uint32_t{top[k]}));
  return largest;
}

}  // namespace narrow::detail
