// What the array functions do in lanes, as functions that each instruction set has for itself: which run is chosen when the
// program does (simd/target.hpp). The scalar functions decide what is right; kernels only do the same faster.
#pragma once

#include "narrow/array/round_plan.hpp"
#include "narrow/base/random.hpp"

namespace narrow::detail {

// Where the scalar function finds everything it needs for element i of the whole array.
struct CastJob {
  Format format;
  Cast cast;
  std::uint64_t seed;
  RoundPlan plan;
  std::size_t first = 0;  // index in the whole array of what the pointers call element 0
};

inline std::uint64_t element_random(const CastJob& job, std::size_t index) noexcept {
  return job.cast.rounding == Rounding::stochastic ? random_bits(job.seed, job.first + index) : 0;
}

// out[i] for i in [begin, end). Out is float (values) or the type of the codes; in and out may be the same memory.
template <class Out>
using CastKernel = void (*)(const float* in, Out* out, std::size_t begin, std::size_t end, const CastJob& job) noexcept;

// Codes to floats. A code is moved to the top of a word, so that its sign is the float's, and its fields are moved down to
// where float has them; a multiplication by a power of two moves the bias and makes subnormals normal.
//   e4m3    seeeemmm 000...    >> 4    s0000eeee mmm00...    * 2^(127 - 7)
enum class DecodeWay : std::uint8_t {
  finite,    // scaled, every code is a number
  nan_only,  // scaled, the magnitudes above the largest are NaN
  inf_nan,   // scaled, the magnitude above the largest is Inf, and then come NaN
  fnuz,      // scaled, the code of -0 is NaN
  word,      // the code is the upper part of the float's word
  half,      // fp16 as the CPU converts it
  // A byte with at most four exponent bits, moved into an fp16 word, converted, and the bias corrected:
  byte_finite,  // every code is a number
  byte_top,     // the magnitudes above the largest are Inf and NaN
  byte_fnuz,    // the code of -0 is NaN
  power,        // e8m0
  integer,      // two's complement
  scalar
};

struct DecodePlan {
  DecodeWay way = DecodeWay::scalar;
  int justify = 0;                 // from the top of the code's own element to the top of its width
  int field_shift = 0;             // 8 - exponent_bits
  float scale = 1;                 // 2^(127 - bias); for integers the quantum
  std::uint32_t word_mask = ~0u;   // what stays of a word after the shift
  std::uint32_t largest_word = 0;  // float bits of the largest finite value
  std::uint32_t finite_up_to = 0;  // byte_top: the largest finite magnitude at the top of 16 bits
  std::uint32_t scalar_above = 0;  // justified magnitudes above (NaN beside Inf) are left to the scalar function
  Format format;
};

template <class In>
using DecodeKernel = void (*)(const In* in, float* out, std::size_t begin, std::size_t end, const DecodePlan& plan) noexcept;

// Sums and counts over a block of at most 1024 floats, a multiple of 16. Eight accumulators by index modulo 8, on every
// machine, so that the sums have the same bits everywhere.
inline constexpr std::size_t statistics_block = 1024, statistics_step = 16;

struct BlockInput {
  std::uint32_t top = 0;      // largest magnitude word, NaN and Inf included
  std::uint32_t least = ~0u;  // smallest non-zero magnitude word; ~0 when there is none
  std::uint64_t zeros = 0;
  double sum = 0, squares = 0;
};
struct NonFinite {
  std::uint64_t nan = 0, inf = 0;
};
struct Beyond {
  std::uint64_t overflow = 0, saturated = 0;
};

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

// Elements by kind and sign.
struct SpecialCounts {
  std::uint64_t zero[2] = {}, inf[2] = {};
};

// A row: the functions of one instruction set.
struct ArrayKernels {
  bool has_half;  // the CPU converts fp16
  CastKernel<float> (*cast_values)(const CastJob&);
  CastKernel<std::uint8_t> (*cast_codes8)(const CastJob&);
  CastKernel<std::uint16_t> (*cast_codes16)(const CastJob&);
  CastKernel<std::uint32_t> (*cast_codes32)(const CastJob&);
  DecodeKernel<std::uint8_t> (*decode8)(DecodeWay);
  DecodeKernel<std::uint16_t> (*decode16)(DecodeWay);
  DecodeKernel<std::uint32_t> (*decode32)(DecodeWay);

  // The word of the largest magnitude of each of the blocks, of any size, of 16 and of 32; NaN is above Inf and Inf above all others.
  void (*top_words)(const float* x, std::size_t blocks, std::size_t size, std::uint32_t* tops) noexcept;
  void (*top_words16)(const float* in, std::size_t groups, std::uint32_t* tops) noexcept;
  void (*top_words32)(const float* in, std::size_t groups, std::uint32_t* tops) noexcept;
  // out[i] = code of in[i] * factors[i / group], for as many of the first n as fill whole vectors; returns how many.
  // No product may be NaN; an infinite one is clamped like any other that is too large.
  std::size_t (*cast_scaled16)(const float* in, const float* factors, std::size_t n, std::uint8_t* out, const RoundPlan&) noexcept;
  std::size_t (*cast_scaled32)(const float* in, const float* factors, std::size_t n, std::uint8_t* out, const RoundPlan&) noexcept;
  // out[i] = x[i] * factors[i / size], cut to [-limit, limit]; NaN stays.
  void (*scale_clamped)(const float* x, std::size_t blocks, std::size_t size, const float* factors, float limit, float* out) noexcept;

  BlockInput (*scan_block)(const float* x, std::size_t n) noexcept;
  NonFinite (*clear_non_finite)(float* x, std::size_t n) noexcept;  // they become zero, in place
  // Finite data whose scaled magnitude is above the word for its sign, and how many of these have a finite result.
  Beyond (*count_overflow)(const float* s, const float* r, std::size_t n, const std::uint32_t (&last_in_range)[2]) noexcept;
  // Masked: some results may not be finite. Relative: look for larger relative errors.
  BlockErrors (*compare_block)(const BlockToCompare&, Difference, bool masked, bool relative) noexcept;
  // The largest |r - s| / |s| of the elements with s not zero and r finite, rounded to float.
  float (*largest_relative_error)(const float* s, const float* r, std::size_t n) noexcept;

  void (*count_specials)(SpecialCounts& to, const float* x, std::size_t n) noexcept;
  // Elements x with from <= x ^ sign < Inf, as words.
  std::uint64_t (*count_from)(std::uint32_t from, std::uint32_t sign, const float* x, std::size_t n) noexcept;
};

const ArrayKernels& array_kernels();

// One element after the other, where lanes do not know better. Not inline: kernels call them.
template <class Out>
void cast_one_by_one(const float* in, Out* out, std::size_t begin, std::size_t end, const CastJob& job) noexcept;
template <class In>
void decode_one_by_one(const In* in, float* out, std::size_t begin, std::size_t end, const DecodePlan& plan) noexcept;

// Whether cast_scaled has lanes for a plan: to nearest even, magnitudes beyond the largest clamped, the sign a bit.
inline bool has_scaled_lanes(const RoundPlan& plan, const Cast& cast) noexcept {
  return plan.way == Way::anchor && plan.finish == Finish::clamped && cast.rounding == Rounding::nearest_even;
}

}  // namespace narrow::detail
