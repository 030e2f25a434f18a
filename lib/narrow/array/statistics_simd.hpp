// Sums and counts over a block of at most 2048 floats. Eight accumulators by index modulo 8, on every machine, so that
// the sums have the same bits everywhere.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "narrow/array/lanes_simd.hpp"

namespace narrow::detail {

inline constexpr std::size_t statistics_block = 2048;
inline constexpr int group_vectors = 8 / lane_count;

typedef double DoubleLanes __attribute__((vector_size(16)));  // two doubles: the widest that every machine has

struct DoubleGroup {
  DoubleLanes pair[4] = {};

  double total() const noexcept {  // a fixed tree
    const DoubleLanes sum = (pair[0] + pair[1]) + (pair[2] + pair[3]);
    return sum[0] + sum[1];
  }
};

// Lanes 2k and 2k + 1 as doubles.
template <int K>
DoubleLanes widen(FloatLanes x) noexcept {
#if defined(__ARM_NEON)
  if constexpr (K == 0) return std::bit_cast<DoubleLanes>(vcvt_f64_f32(vget_low_f32(std::bit_cast<float32x4_t>(x))));
  else return std::bit_cast<DoubleLanes>(vcvt_high_f64_f32(std::bit_cast<float32x4_t>(x)));
#else
  return DoubleLanes{static_cast<double>(x[2 * K]), static_cast<double>(x[2 * K + 1])};
#endif
}

// body(k, pair) for the pairs of vector v of a group of eight elements.
template <class Body>
void each_pair(int v, const Body& body) noexcept {
  const int first = v * lane_count / 2;
  body(first, std::integral_constant<int, 0>{});
  body(first + 1, std::integral_constant<int, 1>{});
  if constexpr (lane_count == 8) {
    body(first + 2, std::integral_constant<int, 2>{});
    body(first + 3, std::integral_constant<int, 3>{});
  }
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
  double sum = 0, sum_squares = 0;
};

inline BlockInput scan_block(const float* x, std::size_t n) noexcept {
  WordLanes top{}, least = splat(~0u), zeros{};
  DoubleGroup sum, squares;
  for (std::size_t i = 0; i < n; i += 8) {
    for (int v = 0; v < group_vectors; ++v) {
      const WordLanes word = load(x + i + static_cast<std::size_t>(v * lane_count)), a = magnitude(word);
      top = larger(top, a);
      // One less turns zero into the largest word of all, so that the smallest of the rest remains.
      least = std::bit_cast<WordLanes>(lesser_unsigned(least, a - 1));
      zeros += std::bit_cast<WordLanes>(a == 0);
      each_pair(v, [&](int k, auto lane_pair) {
        const DoubleLanes d = widen<lane_pair.value>(as_float(word));
        sum.pair[k] += d;
        squares.pair[k] += d * d;
      });
    }
  }
  BlockInput b;
  for (int k = 0; k < lane_count; ++k) {
    b.top = top[k] > b.top ? top[k] : b.top;
    b.least = least[k] < b.least - 1 ? least[k] + 1 : b.least;
  }
  b.zeros = total_count(zeros);
  b.sum = sum.total();
  b.sum_squares = squares.total();
  return b;
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

// What the comparison of a block with its rounded values finds. Elements whose result is not finite count as not
// compared and add nothing else.
struct BlockErrors {
  std::uint64_t zeros_after = 0, below_normal = 0;  // below_normal counts the zeros too
  std::uint64_t dropped = 0;
  double squared_error = 0;
  double signal = 0;   // sum of squares of the compared (only when Masked)
  bool worse = false;  // some relative error may exceed the one given
};

// x: the data, s: scaled, r: the scaled data rounded, inverse: 1 / scale. relative: the largest relative error so far.
// Masked: some results may not be finite.
template <bool Scaled, bool Masked>
BlockErrors compare_block(const float* x, const float* s, const float* r, std::size_t n, std::uint32_t normal_word,
                          float relative, double inverse) noexcept {
  WordLanes zeros{}, low{}, worse{}, dropped{};
  DoubleGroup errors, signal;
  for (std::size_t i = 0; i < n; i += 8) {
    for (int v = 0; v < group_vectors; ++v) {
      const std::size_t at = i + static_cast<std::size_t>(v * lane_count);
      WordLanes sw = load(s + at), rw = load(r + at), xw = Scaled ? load(x + at) : sw;
      WordLanes a = magnitude(rw);
      if constexpr (Masked) {
        const WordLanes keep = above(splat(0x7F800000), a);
        dropped += ~keep;
        sw &= keep, xw &= keep, rw &= keep, a |= ~keep;  // neither zero nor below normal
      }
      zeros += std::bit_cast<WordLanes>(a == 0);
      low += above(splat(normal_word), std::bit_cast<WordLanes>(a & 0x7FFFFFFFu));
      const WordLanes error = magnitude(as_words(as_float(rw) - as_float(sw)));
      worse |= above(as_float(error), as_float(magnitude(sw)) * relative);
      each_pair(v, [&](int k, auto lane_pair) {
        DoubleLanes d = widen<lane_pair.value>(as_float(rw));
        if constexpr (Scaled) d *= inverse;
        const DoubleLanes value = widen<lane_pair.value>(as_float(xw));
        d -= value;
        errors.pair[k] += d * d;
        if constexpr (Masked) signal.pair[k] += value * value;
      });
    }
  }
  return {total_count(zeros), total_count(low), total_count(dropped), errors.total(), signal.total(), any(worse)};
}

}  // namespace narrow::detail
