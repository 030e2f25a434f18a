// The fused step for sixteen columns at once, the same bits as fused_step for finite operands. No intrinsics: vectors of
// the compiler, of four lanes on any machine, of eight where it has AVX2.
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

inline IntFour words(FloatFour x) { return std::bit_cast<IntFour>(x); }
inline IntFour larger(IntFour x, IntFour y) { return x > y ? x : y; }
inline bool any(IntFour mask) {
  const auto halves = std::bit_cast<std::array<std::uint64_t, 2>>(mask);
  return (halves[0] | halves[1]) != 0;
}

// The largest exponents of a step's products, column by column; below no_product where all are zero products.
template <class Exponent>
inline void largest_exponents(const Exponent* a, const Exponent* b, std::size_t products,
                              std::int32_t (&out)[lane_columns]) {
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
  __builtin_memcpy(flat, best, sizeof flat);
  for (std::size_t j = 0; j < lane_columns; ++j) out[j] = flat[j];
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
  void largest(std::size_t products, std::int32_t (&out)[lane_columns]) const {
    largest_exponents(a_exponent, b_exponent, products, out);
  }
  template <class Vector>
  void product(std::size_t k, std::size_t v, Vector& out) const {
    __builtin_memcpy(&out, b + k * lane_columns + sizeof out / sizeof(Real) * v, sizeof out);
    out *= a[k];
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
  void largest(std::size_t, std::int32_t (&out)[lane_columns]) const {
    for (std::int32_t& exponent : out) exponent = *exponents;
  }
  template <class Vector>
  void product(std::size_t k, std::size_t, Vector& out) const { out = Vector{} + products[k]; }
};

// Quanta of one lane in 64 bits, rounded as the scalar step does.
inline float round_lane(const DotModel& m, std::int64_t quanta, int lowest) {
  return static_cast<float>(decode(round_sum(m, quanta, lowest), m.accumulator.format));
}
inline std::int64_t quanta_of(float addend, int lowest) {
  return static_cast<std::int64_t>(static_cast<double>(addend) * compose(false, 1, -lowest));
}

// Vectors of 4 and 8 floats with their companions; those of 64 bits hold half as many.
template <std::size_t Width>
struct LaneTypes;
template <>
struct LaneTypes<4> {
  typedef float Float __attribute__((vector_size(16)));
  typedef std::int32_t Int __attribute__((vector_size(16)));
  typedef std::uint32_t Word __attribute__((vector_size(16)));
  typedef double Double __attribute__((vector_size(16)));
  typedef std::int64_t Long __attribute__((vector_size(16)));
  typedef float HalfFloat __attribute__((vector_size(8)));
  typedef std::int32_t HalfInt __attribute__((vector_size(8)));
};
template <>
struct LaneTypes<8> {
  typedef float Float __attribute__((vector_size(32)));
  typedef std::int32_t Int __attribute__((vector_size(32)));
  typedef std::uint32_t Word __attribute__((vector_size(32)));
  typedef double Double __attribute__((vector_size(32)));
  typedef std::int64_t Long __attribute__((vector_size(32)));
  typedef float HalfFloat __attribute__((vector_size(16)));
  typedef std::int32_t HalfInt __attribute__((vector_size(16)));
};

// Steps for sixteen columns in vectors of Width floats: as wide as the machine's, or the compiler takes them apart. All
// is in memory between the functions, which are inlined: a vector that the machine lacks has no place in a call.
template <std::size_t Width>
struct FusedLanes {
  static constexpr std::size_t vectors = lane_columns / Width;
  using Float = typename LaneTypes<Width>::Float;
  using Int = typename LaneTypes<Width>::Int;
  using Word = typename LaneTypes<Width>::Word;
  using Double = typename LaneTypes<Width>::Double;
  using Long = typename LaneTypes<Width>::Long;
  using HalfFloat = typename LaneTypes<Width>::HalfFloat;
  using HalfInt = typename LaneTypes<Width>::HalfInt;

  Float acc[vectors];
  Int lowest[vectors];  // 2^lowest is the quantum of a step: the largest exponent of products, addend and floor, less F

  // The exponents of the products go in by `lowest`.
  template <class Exponent>
  void find_lowest(const LaneConstants& c) {
    const Int floor = c.exponent_floor - Int{}, least = c.accumulator_min_exponent - Int{};
    for (std::size_t v = 0; v < vectors; ++v) {
      const Int magnitude = __builtin_bit_cast(Int, acc[v]) & 0x7FFFFFFF, exponent = (magnitude >> 23) - 127;
      const Int own = magnitude == 0 ? floor : exponent > least ? exponent : least;
      Int largest = lowest[v] < no_product<Exponent> ? floor : lowest[v];
      largest = largest > floor ? largest : floor;
      lowest[v] = (largest > own ? largest : own) - c.fraction_bits;
    }
  }

  // sum * 2^lowest rounded to nearest even in fp16, as floats. In doubles: the anchor 1.5 * 2^(e + 42) has its last bit at
  // the quantum 2^(e - 10) of a value of exponent e, so adding it rounds there and taking it away is exact; what is below
  // 2^-14 has the quantum of 2^-14. A zero comes out as +0, also of a negative sum.
  static void round_to_half(const Int& sum, const Int& lowest, Float& out) {
    for (std::size_t part = 0; part < 2; ++part) {
      HalfInt quanta, place;
      __builtin_memcpy(&quanta, reinterpret_cast<const char*>(&sum) + part * sizeof quanta, sizeof quanta);
      __builtin_memcpy(&place, reinterpret_cast<const char*>(&lowest) + part * sizeof place, sizeof place);
      const Long exponent = __builtin_convertvector(place, Long);
      const Double x = __builtin_convertvector(quanta, Double) * __builtin_bit_cast(Double, (exponent + 1023) << 52);
      const Long least = Long{} + ((1023LL - 14) << 52), own = __builtin_bit_cast(Long, x) & 0x7FF0000000000000LL;
      const Long e = own > least ? own : least;
      const auto anchor = __builtin_bit_cast(Double, e + (42LL << 52) + 0x0008000000000000LL);
      const HalfFloat rounded = __builtin_convertvector((x + anchor) - anchor, HalfFloat);
      __builtin_memcpy(reinterpret_cast<char*>(&out) + part * sizeof rounded, &rounded, sizeof rounded);
    }
  }

  // Sums of products [begin, end) in quanta, cut term by term: a conversion to an integer cuts the magnitude, which is
  // what the hardware does. a * b and the multiplication by a power of two are exact.
  template <class Factors>
  static void sum_quanta(const Factors& x, std::size_t begin, std::size_t end, const Float (&per_quantum)[vectors],
                         Int (&sums)[vectors]) {
    for (std::size_t k = begin; k < end; ++k)
      for (std::size_t v = 0; v < vectors; ++v) {
        Float term;
        x.product(k, v, term);
        sums[v] += __builtin_convertvector(term * per_quantum[v], Int);
      }
  }

  // One step in floats and 32-bit sums. |term| < 4 * 2^F, so 2^(29 - F) terms fit a sum; Halves: there are twice as many.
  // Returns whether an accumulator became infinite.
  template <bool Halves, class Factors>
    requires std::is_same_v<typename Factors::Real, float>
  bool step(const DotModel& m, const LaneConstants& c, const Factors& x) {
    const auto products = static_cast<std::size_t>(c.products_per_step);
    std::int32_t largest[lane_columns];
    x.largest(products, largest);
    __builtin_memcpy(lowest, largest, sizeof largest);
    find_lowest<typename Factors::Exponent>(c);
    Int sums[vectors] = {}, more[vectors] = {}, slow = {};
    Float per_quantum[vectors], quantum[vectors], results[vectors];
    for (std::size_t v = 0; v < vectors; ++v) {
      slow |= lowest[v] < -126;
      const Int within = lowest[v] > -126 ? lowest[v] : -126 - Int{};  // of which 2^n and 2^-n are floats
      per_quantum[v] = __builtin_bit_cast(Float, (127 - within) << 23), quantum[v] = __builtin_bit_cast(Float, (127 + within) << 23);
    }
    sum_quanta(x, 0, Halves ? products / 2 : products, per_quantum, sums);
    if constexpr (Halves) sum_quanta(x, products / 2, products, per_quantum, more);
    for (std::size_t v = 0; v < vectors; ++v) {
      constexpr std::int32_t safe = 1 << 29;  // two such sums and the addend (below 2^27) stay within 32 bits
      slow |= (sums[v] > safe) | (sums[v] < -safe);
      if constexpr (Halves) slow |= (more[v] > safe) | (more[v] < -safe);
      // As words: a sum that leaves 32 bits is not used.
      const Int addend = __builtin_convertvector(acc[v] * per_quantum[v], Int);
      const auto sum = __builtin_bit_cast(Int, __builtin_bit_cast(Word, sums[v]) + __builtin_bit_cast(Word, more[v]) + __builtin_bit_cast(Word, addend));
      if (c.rounds_to_nearest) {
        round_to_half(sum, lowest[v], results[v]);
        slow |= (__builtin_bit_cast(Int, results[v]) & 0x7FFFFFFF) > 0x477FE000;  // 65504
        continue;
      }
      // Toward zero: the nearest float, or the one before it where that is farther out than the sum.
      const Float nearest = __builtin_convertvector(sum, Float);
      const Int back = __builtin_convertvector(nearest, Int);
      const Int beyond = (back ^ (sum >> 31)) > (sum ^ (sum >> 31));  // |back| > |sum|, by one's complement
      results[v] = __builtin_bit_cast(Float, (__builtin_bit_cast(Int, nearest) + beyond) & c.kept_mask) * quantum[v];
      // Subnormal or infinite: not what a multiplication of floats decides.
      const Int magnitude = __builtin_bit_cast(Int, results[v]) & 0x7FFFFFFF;
      slow |= ((magnitude < 0x00800000) & (sum != 0)) | (magnitude >= 0x7F800000);
    }
    const auto parts = std::bit_cast<std::array<std::uint64_t, Width / 2>>(slow);
    std::uint64_t any = 0;
    for (const std::uint64_t part : parts) any |= part;
    if (any == 0) [[likely]] {
      for (std::size_t v = 0; v < vectors; ++v) acc[v] = results[v];
      return false;
    }
    std::int64_t quanta[lane_columns];
    for (std::size_t j = 0; j < lane_columns; ++j)
      quanta[j] = std::int64_t{sums[j / Width][j % Width]} + more[j / Width][j % Width];
    return round_each(m, quanta);
  }

  // The same for any range of exponents: products and quanta in doubles, sums in 64 bits.
  template <bool Halves, class Factors>
    requires std::is_same_v<typename Factors::Real, double>
  bool step(const DotModel& m, const LaneConstants& c, const Factors& x) {
    const auto products = static_cast<std::size_t>(c.products_per_step);
    std::int32_t largest[lane_columns];
    x.largest(products, largest);
    __builtin_memcpy(lowest, largest, sizeof largest);
    find_lowest<typename Factors::Exponent>(c);
    double flat[lane_columns];
    for (std::size_t j = 0; j < lane_columns; ++j) flat[j] = compose(false, 1, -lowest[j / Width][j % Width]);
    Double per_quantum[2 * vectors];
    __builtin_memcpy(per_quantum, flat, sizeof flat);
    Long quanta[2 * vectors] = {};
    for (std::size_t k = 0; k < products; ++k)
      for (std::size_t v = 0; v < 2 * vectors; ++v) {
        Double term;
        x.product(k, v, term);
        quanta[v] += __builtin_convertvector(term * per_quantum[v], Long);
      }
    std::int64_t sums[lane_columns];
    __builtin_memcpy(sums, quanta, sizeof sums);
    return round_each(m, sums);
  }

  bool round_each(const DotModel& m, const std::int64_t (&quanta)[lane_columns]) {
    bool infinite = false;
    for (std::size_t j = 0; j < lane_columns; ++j) {
      const float addend = acc[j / Width][j % Width];
      const int place = lowest[j / Width][j % Width];
      const float result = round_lane(m, quanta[j] + quanta_of(addend, place), place);
      acc[j / Width][j % Width] = result;
      infinite = infinite || !std::isfinite(result);
    }
    return infinite;
  }

  template <bool Halves, class Factors>
  static bool chain(const DotModel& m, const LaneConstants& c, Factors x, std::size_t products,
                    float (&accumulators)[lane_columns]) {
    const auto step_products = static_cast<std::size_t>(c.products_per_step);
    const std::size_t instruction =
        c.steps_per_instruction == 0 ? products : step_products * static_cast<std::size_t>(c.steps_per_instruction);
    FusedLanes lanes;
    __builtin_memcpy(lanes.acc, accumulators, sizeof lanes.acc);
    for (std::size_t k = 0; k < products; k += instruction) {
      float entered[lane_columns];
      if (c.steps_per_instruction != 0) {
        __builtin_memcpy(entered, lanes.acc, sizeof entered);
        for (Float& acc : lanes.acc) acc = Float{};
      }
      for (std::size_t i = 0; i < instruction; i += step_products, x.advance(step_products))
        if (lanes.template step<Halves>(m, c, x)) return false;
      if (c.steps_per_instruction == 0) continue;
      for (std::size_t j = 0; j < lane_columns; ++j) {
        float sum = lanes.acc[j / Width][j % Width] + entered[j];
        // Rounding twice is innocuous: 24 bits are at least twice 11 and two.
        if (m.accumulator.format.mantissa_bits != 23) sum = round_to(sum, m.accumulator.format);
        if (!std::isfinite(sum)) return false;
        lanes.acc[j / Width][j % Width] = sum;
      }
    }
    __builtin_memcpy(accumulators, lanes.acc, sizeof lanes.acc);
    return true;
  }
};

#if defined(__x86_64__)
// The same source with eight lanes, where the machine has them: only what is inlined here is compiled for them.
template <bool Halves, class Factors>
[[gnu::target("avx2"), gnu::flatten]] bool wide_chain(const DotModel& m, const LaneConstants& c, const Factors& x,
                                                      std::size_t products, float (&accumulators)[lane_columns]) {
  return FusedLanes<8>::chain<Halves>(m, c, x, products, accumulators);
}
inline const bool has_wide_lanes = __builtin_cpu_supports("avx2") != 0;
#endif

// One chain over `products` products (whole instructions), sixteen accumulators that hold values of the accumulator's
// format. False when one of them became infinite on the way: then the lanes stop, and what they hold means nothing.
template <class Factors>
bool fused_chain(const DotModel& m, const LaneConstants& c, const Factors& x, std::size_t products,
                 float (&accumulators)[lane_columns]) {
  const bool halves = c.products_per_step > 1 << (29 - c.fraction_bits);
#if defined(__x86_64__)
  if (has_wide_lanes)
    return halves ? wide_chain<true>(m, c, x, products, accumulators) : wide_chain<false>(m, c, x, products, accumulators);
#endif
  return halves ? FusedLanes<4>::chain<true>(m, c, x, products, accumulators)
                : FusedLanes<4>::chain<false>(m, c, x, products, accumulators);
}

}  // namespace narrow::detail
