// What products do in lanes, sixteen columns at once, as functions that each instruction set has for itself (simd/target.hpp).
// All give the bits of dot(); where lanes cannot be sure they say so, and the caller asks dot().
#pragma once

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
  bool in_halves;          // a step has so many terms that their sum needs two words
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
  c.in_halves = c.products_per_step > 1 << (29 - c.fraction_bits);
  return c;
}

// Rows of A, one every `pitch` factors, and sixteen columns of B, product after product.
template <class Real, class Exponent>
struct LaneOperands {
  const Real* a;
  const Exponent* a_exponent;
  std::size_t pitch;
  const Real* b;  // [product][16]
  const Exponent* b_exponent;
};

// One row and one column that all lanes share: they differ in where their chains begin and end.
template <class Real>
struct SharedProducts {
  const Real* products;           // exact
  const std::int16_t* exponents;  // the largest of each step
};

// How floats are rounded at the last bit of a format, to nearest even.
struct RoundedLanes {
  enum class Way : std::uint8_t {
    anchor,
    word,  // the format has float's exponents: round the word itself
    half   // fp16 as the CPU converts it; what overflows is Inf or NaN to the end of the chain
  };
  int cut;                         // bits of a float below the format's last one
  std::int32_t min_exponent_bits;  // of the smallest normal value, as a float's word
  std::int32_t largest_word;       // of the largest value: beyond it the lanes do not know the result
  Way way;

  RoundedLanes(const Format& f, bool has_half)
      : cut(23 - f.mantissa_bits),
        min_exponent_bits(std::bit_cast<std::int32_t>(static_cast<float>(smallest_normal(f)))),
        largest_word(std::bit_cast<std::int32_t>(static_cast<float>(largest(f)))),
        way(f.max_exponent() + cut > 126 ? Way::word : has_half && f == ieee(5, 10) ? Way::half : Way::anchor) {}
};

// One chain over `products` products (whole instructions) for `rows` rows, accumulators that hold values of the accumulator's
// format. Rows that are unsure are left alone; one becomes so when an accumulator becomes infinite, and then means nothing.
template <class Real, class Exponent>
using FusedKernel = void (*)(const DotModel&, const LaneConstants&, const LaneOperands<Real, Exponent>&, std::size_t products,
                             std::size_t rows, float (*accumulators)[lane_columns], bool* unsure);
template <class Real>
using SharedKernel = bool (*)(const DotModel&, const LaneConstants&, const SharedProducts<Real>&, std::size_t products,
                              float (&accumulators)[lane_columns]);
// Rows of a at `pitch`; a row of b has sixteen numbers.
template <class Real>
using ChainKernel = void (*)(const Real* a, std::size_t pitch, std::size_t rows, const Real* b, std::size_t products,
                             Real (*accumulators)[lane_columns]);
template <class Real>
using SharedFma = void (*)(const Real* a, const Real* b, std::size_t products, Real (&sums)[lane_columns]);

// A row: the functions of one instruction set.
struct DotKernels {
  bool has_half;  // the CPU converts fp16
  FusedKernel<float, std::int8_t> fused_bytes;
  FusedKernel<float, std::int16_t> fused_words;
  FusedKernel<double, std::int8_t> fused_bytes_wide;
  FusedKernel<double, std::int16_t> fused_words_wide;
  SharedKernel<float> shared;
  SharedKernel<double> shared_wide;
  ChainKernel<float> fma;           // acc = fma(a, b, acc)
  ChainKernel<float> multiply_add;  // acc = acc + a * b
  ChainKernel<double> fma_wide, multiply_add_wide;
  // acc = round(acc + round(a * b)). Right while every product is exact in a float, no start is -0 and nothing overflows;
  // beyond[row][lane] becomes the largest magnitude seen.
  void (*rounded)(const RoundedLanes&, const float* a, std::size_t pitch, std::size_t rows, const float* b,
                  std::size_t products, float (*accumulators)[lane_columns], std::int32_t (*beyond)[lane_columns]);
  // The same for products a[k] b[k] that all lanes share; false when something overflowed.
  bool (*rounded_shared)(const RoundedLanes&, const float* a, const float* b, std::size_t products, float (&sums)[lane_columns]);
  SharedFma<float> fma_shared;
  SharedFma<double> fma_shared_wide;
};

const DotKernels& dot_kernels();

inline FusedKernel<float, std::int8_t> fused_kernel(float, std::int8_t) { return dot_kernels().fused_bytes; }
inline FusedKernel<float, std::int16_t> fused_kernel(float, std::int16_t) { return dot_kernels().fused_words; }
inline FusedKernel<double, std::int8_t> fused_kernel(double, std::int8_t) { return dot_kernels().fused_bytes_wide; }
inline FusedKernel<double, std::int16_t> fused_kernel(double, std::int16_t) { return dot_kernels().fused_words_wide; }
inline SharedKernel<float> shared_kernel(float) { return dot_kernels().shared; }
inline SharedKernel<double> shared_kernel(double) { return dot_kernels().shared_wide; }
inline ChainKernel<float> fma_kernel(float) { return dot_kernels().fma; }
inline ChainKernel<double> fma_kernel(double) { return dot_kernels().fma_wide; }
inline ChainKernel<float> multiply_add_kernel(float) { return dot_kernels().multiply_add; }
inline ChainKernel<double> multiply_add_kernel(double) { return dot_kernels().multiply_add_wide; }
inline SharedFma<float> shared_fma(float) { return dot_kernels().fma_shared; }
inline SharedFma<double> shared_fma(double) { return dot_kernels().fma_shared_wide; }

// quanta * 2^lowest + addend rounded as the scalar step does; not inline, because kernels call it.
float round_lane(const DotModel& m, std::int64_t quanta, float addend, int lowest);
// A sum of two values of the accumulator's format in it; infinite where it overflows.
float round_addition(const DotModel& m, float sum);

}  // namespace narrow::detail
