// How to lose bits: the policies of a conversion. A format says what a code means, a cast says what to do with the rest.
//
//   constexpr Cast stochastic{.rounding = Rounding::stochastic, .overflow = Overflow::saturate};
//   static_assert(stochastic.subnormals == Subnormals::keep);
#pragma once

#include <cstdint>

namespace narrow {

// The last bit is that of the significand, implicit bit included. In a format without mantissa bits (e8m0, e3m0f) it is
// the implicit bit itself, which is odd: there a tie between two powers of two goes to the larger one, and to_odd stays
// at the smaller one. In those of P3109 (binary8p1se) it is the last bit of the code.
enum class Rounding : std::uint8_t {
  nearest_even,     // the nearest value, a tie to the one with an even last bit
  nearest_away,     // the nearest, a tie to the larger magnitude
  nearest_to_zero,  // the nearest, a tie to the smaller magnitude
  toward_zero,      // the largest magnitude not above
  up,               // the smallest value not below
  down,             // the largest value not above
  to_odd,           // the value itself, else the neighbour with an odd last bit
  stochastic        // up with a probability equal to the rest
};

// What becomes of a magnitude beyond the largest.
enum class Overflow : std::uint8_t {
  to_special,      // Inf, else NaN (with the sign), else the largest finite value, where the mode rounds away from zero
  saturate,        // the largest finite value, also for Inf
  saturate_finite  // finite values saturate, Inf goes to the special (ONNX to e8m0; its tables for fnuz before 1.19)
};

// What becomes of values below the smallest normal one.
enum class Subnormals : std::uint8_t {
  keep,
  flush_results,  // a result that is subnormal after rounding becomes zero with its sign
  flush_inputs    // an input that is subnormal in the carrier counts as zero with its sign
};

// Which code a NaN input gives. Formats without NaN give the largest positive value, integers give 0, unless said.
enum class Nan : std::uint8_t {
  canonical,     // every bit below the sign set, sign dropped (NVIDIA)
  keep_sign,     // the same with the sign of the input
  keep_payload,  // sign and upper payload bits kept, quiet bit set (IEEE 754; ARM FCVT, x86 F16C)
  quiet,         // only the quiet bit, with the sign of the input
  cut_payload,   // the word is cut like a number: a NaN whose payload is in the lost bits becomes Inf (cvt.rna.tf32)
  turned_zero,   // as quiet; without NaN in the format, zero with the sign turned (ml_dtypes' FP6 and FP4)
  zero           // as canonical; without NaN in the format, zero (DeepGEMM's FP4)
};

// What a negative value becomes that rounds to zero, and what -0 becomes.
enum class Zero : std::uint8_t {
  keep_sign,  // -0 where the format has one
  positive    // 0 (DeepGEMM's FP4)
};

// What a format without a sign makes of a negative value. to_nan: without NaN (uint8) 0; where there is a zero, 0 as
// well for what rounds to it, when it saturates, and under toward_zero and up.
enum class Negative : std::uint8_t { to_nan, to_magnitude };

// What a format without zero (e8m0, smallest value 2^-127) makes of the values near zero.
enum class NearZero : std::uint8_t {
  by_value,       // rounded like any other; zero gives the smallest value
  by_field,       // code 0 stands for zero while rounding: (2^-127, 2^-126) lies half way up (torch, ONNX)
  by_field_no_zero  // the same, and zero itself is NaN (ml_dtypes)
};

// All that a conversion decides; the plain one rounds to nearest even and keeps what it can.
struct Cast {
  Rounding rounding = Rounding::nearest_even;
  Overflow overflow = Overflow::to_special;
  Subnormals subnormals = Subnormals::keep;
  Nan nan = Nan::canonical;
  int random_bits = 32;       // stochastic: how many bits of the random argument count, 1 to 64 (0 never rounds up)
  bool through_fp32 = false;  // a double is rounded to FP32 (nearest even) first: only where a named system does it
  bool double_keeps_nan = false;  // a NaN that comes as a double follows keep_payload instead (CUDA)
  Negative negative = Negative::to_nan;
  NearZero near_zero = NearZero::by_value;
  Zero zero = Zero::keep_sign;

  friend constexpr bool operator==(const Cast&, const Cast&) = default;
};

}  // namespace narrow
