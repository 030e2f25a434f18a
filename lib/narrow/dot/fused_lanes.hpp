// The fused step for sixteen columns at once, the same bits as fused_step for finite operands. No intrinsics: vectors of
// the compiler, on any machine.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <type_traits>

#include "narrow/dot/step.hpp"
#include "narrow/round/round_to.hpp"

namespace narrow::detail {

inline constexpr std::size_t lane_columns = 16;

// A factor as the lanes read it: its value, and the exponent of its unit place (never normalised). A zero has an exponent
// so low that no product with it is ever the largest.
//   value: a float where all products and their quanta fit one, else a double      exponent: a byte where it fits
template <class Exponent>
inline constexpr Exponent zero_exponent = sizeof(Exponent) == 1 ? -64 : -4000;
template <class Exponent>
inline constexpr Exponent no_product = sizeof(Exponent) == 1 ? -40 : -2000;  // a sum below has a zero factor

struct LaneConstants {
  int products_per_step, steps_per_instruction;  // 0 steps: c is a term of every step; else it is added after so many
  int fraction_bits, exponent_floor, accumulator_min_exponent;
  std::int32_t kept_mask;  // bits of a float's word that the result has
  bool rounds_to_nearest;  // to fp16
};

inline LaneConstants lane_constants(const DotModel& m) {
  LaneConstants c{};
  c.products_per_step = m.products_per_step;
  c.steps_per_instruction = m.rule == DotRule::fused ? 0 : m.instruction_k / m.products_per_step;
  c.fraction_bits = m.fraction_bits;
  c.exponent_floor = m.exponent_floor;
  c.accumulator_min_exponent = m.accumulator.format.min_exponent();
  c.kept_mask = m.result.mantissa_bits >= 23 ? -1 : -(1 << (23 - m.result.mantissa_bits));
  c.rounds_to_nearest = m.rounding != Rounding::toward_zero;
  return c;
}

typedef float FloatFour __attribute__((vector_size(16)));
typedef std::int32_t IntFour __attribute__((vector_size(16)));
typedef double DoubleTwo __attribute__((vector_size(16)));
typedef std::int64_t LongTwo __attribute__((vector_size(16)));

typedef std::int32_t IntTwo __attribute__((vector_size(8)));
typedef float FloatTwo __attribute__((vector_size(8)));

inline IntFour words(FloatFour x) { return std::bit_cast<IntFour>(x); }
inline FloatFour power_of_two(IntFour n) { return std::bit_cast<FloatFour>((n + 127) << 23); }  // -126 <= n <= 127
inline IntFour larger(IntFour x, IntFour y) { return x > y ? x : y; }
// Sums that may leave 32 bits where their result is not used.
inline IntFour wrapping_sum(IntFour x, IntFour y) {
  typedef std::uint32_t WordFour __attribute__((vector_size(16)));
  return std::bit_cast<IntFour>(std::bit_cast<WordFour>(x) + std::bit_cast<WordFour>(y));
}
inline bool any(IntFour mask) {
  const auto halves = std::bit_cast<LongTwo>(mask);
  return (halves[0] | halves[1]) != 0;
}

// The largest exponents of a step's products, column by column; below no_product where all are zero products.
template <class Exponent>
inline void largest_exponents(const Exponent* a, const Exponent* b, std::size_t products, IntFour (&out)[4]) {
  typedef Exponent Exponents __attribute__((vector_size(16)));
  constexpr std::size_t width = 16 / sizeof(Exponent), vectors = lane_columns / width;
  Exponents best[vectors];
  for (std::size_t v = 0; v < vectors; ++v) best[v] = Exponents{} + Exponent{2} * zero_exponent<Exponent>;
  for (std::size_t k = 0; k < products; ++k)
    for (std::size_t v = 0; v < vectors; ++v) {
      Exponents e;
      __builtin_memcpy(&e, b + k * lane_columns + v * width, sizeof e);
      e += a[k];
      best[v] = e > best[v] ? e : best[v];
    }
  Exponent flat[lane_columns];
  std::int32_t wide[lane_columns];
  __builtin_memcpy(flat, best, sizeof flat);
  for (std::size_t j = 0; j < lane_columns; ++j) wide[j] = flat[j];
  __builtin_memcpy(out, wide, sizeof wide);
}

// What the lanes multiply, product after product. One row of A and sixteen columns of B:
template <class R, class E>
struct LaneOperands {
  using Real = R;
  using Exponent = E;
  const Real* a;
  const Exponent* a_exponent;
  const Real* b;  // [product][16]
  const Exponent* b_exponent;

  void advance(std::size_t products) {
    a += products, a_exponent += products;
    b += products * lane_columns, b_exponent += products * lane_columns;
  }
  void largest(std::size_t products, IntFour (&out)[4]) const { largest_exponents(a_exponent, b_exponent, products, out); }
  template <class Vector>
  Vector product(std::size_t k, std::size_t v) const {
    Vector y;
    __builtin_memcpy(&y, b + k * lane_columns + sizeof y / sizeof(Real) * v, sizeof y);
    return a[k] * y;
  }
};

// One row and one column that all lanes share: they differ in where their chains begin and end.
template <class R>
struct SharedProducts {
  using Real = R;
  using Exponent = std::int16_t;
  const Real* products;            // exact
  const std::int16_t* exponents;  // the largest of each step

  void advance(std::size_t count) { products += count, ++exponents; }
  void largest(std::size_t, IntFour (&out)[4]) const {
    for (IntFour& four : out) four = IntFour{} + *exponents;
  }
  template <class Vector>
  Vector product(std::size_t k, std::size_t) const { return Vector{} + products[k]; }
};

// 2^lowest is the quantum of a step: the largest exponent of products, addend and floor, less F.
template <class Exponent>
inline IntFour lowest_places(IntFour products, FloatFour addend, const LaneConstants& c) {
  const IntFour floor = c.exponent_floor - IntFour{};
  IntFour largest = products < no_product<Exponent> ? floor : larger(products, floor);
  const IntFour magnitude = words(addend) & 0x7FFFFFFF;
  const IntFour own = larger((magnitude >> 23) - 127, c.accumulator_min_exponent - IntFour{});
  return larger(largest, magnitude == 0 ? floor : own) - c.fraction_bits;
}

// sum * 2^lowest rounded to nearest even in fp16, as floats. In doubles: the anchor 1.5 * 2^(e + 42) has its last bit at the
// quantum 2^(e - 10) of a value of exponent e, so adding it rounds there and taking it away is exact; what is below 2^-14
// has the quantum of 2^-14. A zero comes out as +0, also of a negative sum.
inline FloatFour round_to_half(IntFour sum, IntFour lowest) {
  const auto half = [](IntTwo quanta, IntTwo place) {
    const LongTwo exponent = __builtin_convertvector(place, LongTwo);
    const DoubleTwo x = __builtin_convertvector(quanta, DoubleTwo) * std::bit_cast<DoubleTwo>((exponent + 1023) << 52);
    const LongTwo least = LongTwo{} + ((1023LL - 14) << 52);
    LongTwo e = std::bit_cast<LongTwo>(x) & 0x7FF0000000000000LL;
    e = e > least ? e : least;
    const auto anchor = std::bit_cast<DoubleTwo>(e + (42LL << 52) + 0x0008000000000000LL);
    return __builtin_convertvector((x + anchor) - anchor, FloatTwo);
  };
  const FloatTwo low = half(IntTwo{sum[0], sum[1]}, IntTwo{lowest[0], lowest[1]});
  const FloatTwo high = half(IntTwo{sum[2], sum[3]}, IntTwo{lowest[2], lowest[3]});
  return FloatFour{low[0], low[1], high[0], high[1]};
}

// Quanta of one lane in 64 bits, rounded as the scalar step does.
inline float round_lane(const DotModel& m, std::int64_t quanta, int lowest) {
  return static_cast<float>(decode(round_sum(m, quanta, lowest), m.accumulator.format));
}
inline std::int64_t quanta_of(float addend, int lowest) {
  return static_cast<std::int64_t>(static_cast<double>(addend) * compose(false, 1, -lowest));
}

// Sums of a step's products in quanta, cut term by term: a conversion to an integer cuts the magnitude, which is what the
// hardware does. a * b and the multiplication by a power of two are exact.
template <class Factors>
inline void sum_quanta(const Factors& x, std::size_t begin, std::size_t end, const FloatFour (&per_quantum)[4],
                       IntFour (&sums)[4]) {
  for (std::size_t v = 0; v < 4; ++v) sums[v] = IntFour{};
  for (std::size_t k = begin; k < end; ++k)
    for (std::size_t v = 0; v < 4; ++v)
      sums[v] += __builtin_convertvector(x.template product<FloatFour>(k, v) * per_quantum[v], IntFour);
}

// One step in floats and 32-bit sums. |term| < 4 * 2^F, so 2^(29 - F) terms fit a sum; Halves: there are twice as many.
// Returns whether an accumulator became infinite.
template <bool Halves, class Factors>
  requires std::is_same_v<typename Factors::Real, float>
inline bool fused_step_lanes(const DotModel& m, const LaneConstants& c, const Factors& x, FloatFour (&acc)[4]) {
  using Exponent = typename Factors::Exponent;
  const auto products = static_cast<std::size_t>(c.products_per_step);
  IntFour lowest[4], sums[4], more[4] = {};
  x.largest(products, lowest);
  FloatFour per_quantum[4], quantum[4];
  IntFour slow = {};
  for (std::size_t v = 0; v < 4; ++v) {
    lowest[v] = lowest_places<Exponent>(lowest[v], acc[v], c);
    slow |= lowest[v] < -126;
    const IntFour within = larger(lowest[v], -126 - IntFour{});
    per_quantum[v] = power_of_two(-within), quantum[v] = power_of_two(within);
  }
  if constexpr (Halves) {
    sum_quanta(x, 0, products / 2, per_quantum, sums);
    sum_quanta(x, products / 2, products, per_quantum, more);
  } else {
    sum_quanta(x, 0, products, per_quantum, sums);
  }
  FloatFour results[4];
  for (std::size_t v = 0; v < 4; ++v) {
    constexpr std::int32_t safe = 1 << 29;  // two such sums and the addend (below 2^27) stay within 32 bits
    slow |= (sums[v] > safe) | (sums[v] < -safe);
    if constexpr (Halves) slow |= (more[v] > safe) | (more[v] < -safe);
    const IntFour sum = wrapping_sum(wrapping_sum(sums[v], more[v]), __builtin_convertvector(acc[v] * per_quantum[v], IntFour));
    if (c.rounds_to_nearest) {
      results[v] = round_to_half(sum, lowest[v]);
      slow |= (words(results[v]) & 0x7FFFFFFF) > 0x477FE000;  // 65504
      continue;
    }
    // Toward zero: the nearest float, or the one before it where that is farther out than the sum.
    const FloatFour nearest = __builtin_convertvector(sum, FloatFour);
    const IntFour back = __builtin_convertvector(nearest, IntFour);
    const IntFour beyond = (back ^ (sum >> 31)) > (sum ^ (sum >> 31));  // |back| > |sum|, by one's complement
    results[v] = std::bit_cast<FloatFour>((words(nearest) + beyond) & c.kept_mask) * quantum[v];
    // Subnormal or infinite: not what a multiplication of floats decides.
    const IntFour magnitude = words(results[v]) & 0x7FFFFFFF;
    slow |= ((magnitude < 0x00800000) & (sum != 0)) | (magnitude >= 0x7F800000);
  }
  if (!any(slow)) [[likely]] {
    for (std::size_t v = 0; v < 4; ++v) acc[v] = results[v];
    return false;
  }
  bool infinite = false;
  for (std::size_t v = 0; v < 4; ++v)
    for (int lane = 0; lane < 4; ++lane) {
      const std::int64_t quanta = std::int64_t{sums[v][lane]} + more[v][lane] + quanta_of(acc[v][lane], lowest[v][lane]);
      acc[v][lane] = round_lane(m, quanta, lowest[v][lane]);
      infinite = infinite || !std::isfinite(acc[v][lane]);
    }
  return infinite;
}

// The same for any range of exponents: products and quanta in doubles, sums in 64 bits.
template <bool Halves, class Factors>
  requires std::is_same_v<typename Factors::Real, double>
inline bool fused_step_lanes(const DotModel& m, const LaneConstants& c, const Factors& x, FloatFour (&acc)[4]) {
  using Exponent = typename Factors::Exponent;
  const auto products = static_cast<std::size_t>(c.products_per_step);
  IntFour lowest[4];
  x.largest(products, lowest);
  double flat[lane_columns];
  for (std::size_t v = 0; v < 4; ++v) {
    lowest[v] = lowest_places<Exponent>(lowest[v], acc[v], c);
    for (std::size_t lane = 0; lane < 4; ++lane) flat[4 * v + lane] = compose(false, 1, -lowest[v][lane]);
  }
  DoubleTwo per_quantum[8];
  __builtin_memcpy(per_quantum, flat, sizeof flat);
  LongTwo quanta[8] = {};
  for (std::size_t k = 0; k < products; ++k)
    for (std::size_t v = 0; v < 8; ++v)
      quanta[v] += __builtin_convertvector(x.template product<DoubleTwo>(k, v) * per_quantum[v], LongTwo);
  std::int64_t sums[lane_columns];
  __builtin_memcpy(sums, quanta, sizeof sums);
  bool infinite = false;
  for (std::size_t v = 0; v < 4; ++v)
    for (std::size_t lane = 0; lane < 4; ++lane) {
      acc[v][lane] = round_lane(m, sums[4 * v + lane] + quanta_of(acc[v][lane], lowest[v][lane]), lowest[v][lane]);
      infinite = infinite || !std::isfinite(acc[v][lane]);
    }
  return infinite;
}

template <bool Halves, class Factors>
bool fused_chain(const DotModel& m, const LaneConstants& c, Factors x, std::size_t products,
                 float (&accumulators)[lane_columns]) {
  const auto step = static_cast<std::size_t>(c.products_per_step);
  const std::size_t instruction = c.steps_per_instruction == 0 ? products : step * static_cast<std::size_t>(c.steps_per_instruction);
  FloatFour acc[4];
  __builtin_memcpy(acc, accumulators, sizeof acc);
  for (std::size_t k = 0; k < products; k += instruction) {
    FloatFour entered[4] = {};
    if (c.steps_per_instruction != 0) std::swap(entered, acc);
    for (std::size_t i = 0; i < instruction; i += step, x.advance(step))
      if (fused_step_lanes<Halves>(m, c, x, acc)) return false;
    if (c.steps_per_instruction == 0) continue;
    for (std::size_t v = 0; v < 4; ++v)
      for (int lane = 0; lane < 4; ++lane) {
        float sum = acc[v][lane] + entered[v][lane];
        // Rounding twice is innocuous: 24 bits are at least twice 11 and two.
        if (m.accumulator.format.mantissa_bits != 23) sum = round_to(sum, m.accumulator.format);
        if (!std::isfinite(sum)) return false;
        acc[v][lane] = sum;
      }
  }
  __builtin_memcpy(accumulators, acc, sizeof acc);
  return true;
}

// One chain over `products` products (whole instructions), sixteen accumulators that hold values of the accumulator's
// format. False when one of them became infinite on the way: then the lanes stop, and what they hold means nothing.
template <class Factors>
bool fused_chain(const DotModel& m, const LaneConstants& c, const Factors& x, std::size_t products,
                 float (&accumulators)[lane_columns]) {
  const bool halves = c.products_per_step > 1 << (29 - c.fraction_bits);
  return halves ? fused_chain<true>(m, c, x, products, accumulators) : fused_chain<false>(m, c, x, products, accumulators);
}

}  // namespace narrow::detail
