// Eight accumulators by index modulo 8, whatever the width of a register: the sums have the same bits everywhere.
#include "narrow/array/kernels.hpp"
#include "narrow/simd/lanes.hpp"

namespace narrow::detail::inline NARROW_LANES {

namespace {

// A step is 16 elements: two rounds of the accumulators, and one register at least.
constexpr size_t step = statistics_step;
constexpr int step_vectors = static_cast<int>(step) / lane_count;
constexpr int sum_registers = 64 / lane_bytes;

// The accumulators. Vector v of a step, widened to doubles, belongs to registers 2 v and 2 v + 1, counted around.
struct Sums {
  DoubleLanes part[sum_registers] = {};

  DoubleLanes& of(int v, int half) noexcept { return part[(2 * v + half) % sum_registers]; }
  void add(int v, const DoubleLanes (&d)[2]) noexcept { of(v, 0) += d[0], of(v, 1) += d[1]; }
  void add_squares(int v, const DoubleLanes (&d)[2]) noexcept { of(v, 0) += d[0] * d[0], of(v, 1) += d[1] * d[1]; }
  // For doubles that are floats: their squares have 48 bits and are exact, so one rounding or two is the same.
  void add_float_squares(int v, const DoubleLanes (&d)[2]) noexcept {
    of(v, 0) = add_product(of(v, 0), d[0], d[0]), of(v, 1) = add_product(of(v, 1), d[1], d[1]);
  }

  // A fixed tree: ((0 + 2) + (4 + 6)) + ((1 + 3) + (5 + 7)).
  double total() const noexcept {
    double d[8];
    __builtin_memcpy(d, part, sizeof d);
    return ((d[0] + d[2]) + (d[4] + d[6])) + ((d[1] + d[3]) + (d[5] + d[7]));
  }
};

inline uint64_t total_count(WordLanes negative_counts) noexcept {
  uint64_t sum = 0;
  for (int k = 0; k < lane_count; ++k) sum += 0u - negative_counts[k];
  return sum;
}

}  // namespace

BlockInput scan_block(const float* x, size_t n) noexcept {
  WordLanes top{}, least = splat(~0u), zeros{};
  Sums sum, squares;
  for (size_t i = 0; i < n; i += step) {
#pragma GCC unroll 4
    for (int v = 0; v < step_vectors; ++v) {
      const WordLanes word = load(x + i + static_cast<size_t>(v * lane_count)), a = magnitude(word);
      top = larger(top, a);
      // One less turns zero into the largest word of all, so that the smallest of the rest remains.
      least = lesser_unsigned(least, a - 1);
      zeros += as<WordLanes>(a == 0);
      DoubleLanes d[2];
      widen(word, d);
      sum.add(v, d);
      squares.add_float_squares(v, d);
    }
  }
  BlockInput b;
  for (int k = 0; k < lane_count; ++k) {
    b.top = top[k] > b.top ? top[k] : b.top;
    b.least = least[k] < b.least - 1 ? least[k] + 1 : b.least;
  }
  b.zeros = total_count(zeros);
  b.sum = sum.total(), b.squares = squares.total();
  return b;
}

NonFinite clear_non_finite(float* x, size_t n) noexcept {
  WordLanes nan{}, inf{};
  for (size_t i = 0; i < n; i += lane_count) {
    const WordLanes word = load(x + i), a = magnitude(word);
    nan += above(a, splat(0x7F800000));
    inf += as<WordLanes>(a == 0x7F800000u);
    store(x + i, word & above(splat(0x7F800000), a));
  }
  return {total_count(nan), total_count(inf)};
}
Beyond count_overflow(const float* s, const float* r, size_t n, const uint32_t (&last_in_range)[2]) noexcept {
  WordLanes overflow{}, saturated{};
  for (size_t i = 0; i < n; i += lane_count) {
    const WordLanes word = load(s + i);
    const WordLanes limit = select(negative_mask(word), splat(last_in_range[1]), splat(last_in_range[0]));
    const WordLanes beyond = above(magnitude(word), limit);
    overflow += beyond;
    saturated += beyond & above(splat(0x7F800000), magnitude(load(r + i)));
  }
  return {total_count(overflow), total_count(saturated)};
}


// Masked: some results may not be finite. Relative: look for larger relative errors.
template <Difference D, bool Masked, bool Relative>
BlockErrors compare(const BlockToCompare& b) noexcept {
  WordLanes zeros{}, low{}, worse{}, kept{};
  Sums errors, signal;
  for (size_t i = 0; i < b.size; i += step) {
    __builtin_prefetch(b.s + i + statistics_block);  // the next block, while the memory is idle
#pragma GCC unroll 4
    for (int v = 0; v < step_vectors; ++v) {
      const size_t at = i + static_cast<size_t>(v * lane_count);
      WordLanes sw = load(b.s + at), rw = load(b.r + at), xw = D == Difference::exact ? sw : load(b.x + at);
      zeros += as<WordLanes>(as_float(rw) == 0.0f);
      low += is_smaller(rw, b.normal_word);
      if constexpr (Masked) {
        const WordLanes keep = is_smaller(rw, 0x7F800000);
        kept += keep;
        sw &= keep, rw &= keep, xw = D == Difference::exact ? sw : xw & keep;
      }
      const WordLanes error = as_words(as_float(rw) - as_float(sw));
      if constexpr (Relative) worse |= above(as_float(magnitude(error)), as_float(magnitude(sw)) * b.relative);
      DoubleLanes x[2], d[2];
      if constexpr (Masked || D == Difference::general) widen(xw, x);
      if constexpr (D == Difference::exact) {
        widen(error, d);
        errors.add_float_squares(v, d);
      } else {
        widen(rw, d);
        d[0] = d[0] * b.inverse - x[0], d[1] = d[1] * b.inverse - x[1];
        errors.add_squares(v, d);
      }
      if constexpr (Masked) signal.add_float_squares(v, x);
    }
  }
  const double unit = D == Difference::exact ? b.inverse * b.inverse : 1;
  const uint64_t dropped = Masked ? b.size - total_count(kept) : 0;
  return {total_count(zeros), total_count(low), dropped, errors.total() * unit, signal.total() * unit, any(worse)};
}

float largest_relative_error(const float* s, const float* r, size_t n) noexcept {
  WordLanes top{};
  for (size_t i = 0; i < n; i += lane_count) {
    const WordLanes sw = load(s + i), rw = load(r + i), a = magnitude(sw);
    const WordLanes keep = above(splat(0x7F800000), magnitude(rw)) & above(a, WordLanes{});
    const WordLanes error = magnitude(as_words(as_float(rw) - as_float(sw)));
    top = larger(top, as_words(as_float(error) / as_float(a)) & keep);
  }
  return as<float>(largest_lane(top));
}

BlockErrors compare_block(const BlockToCompare& b, Difference difference, bool masked, bool relative) noexcept {
  constexpr Difference exact = Difference::exact, general = Difference::general;
  if (difference == exact) {
    if (masked) return relative ? compare<exact, true, true>(b) : compare<exact, true, false>(b);
    return relative ? compare<exact, false, true>(b) : compare<exact, false, false>(b);
  }
  if (masked) return relative ? compare<general, true, true>(b) : compare<general, true, false>(b);
  return relative ? compare<general, false, true>(b) : compare<general, false, false>(b);
}

}  // namespace narrow::detail::inline NARROW_LANES

