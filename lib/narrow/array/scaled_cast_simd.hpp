// Floats times a factor that they share in groups, cast to one-byte codes in one pass: what block formats do to their
// elements. The bits are those of a multiplication in float and then encode.
#pragma once

#include <algorithm>

#include "narrow/array/cast_lanes_simd.hpp"

namespace narrow::detail {

// Whether cast_scaled has lanes for a plan: to nearest even, magnitudes beyond the largest clamped, the sign a bit.
inline bool has_scaled_lanes(const RoundPlan& plan, const Cast& cast) noexcept {
  return plan.way == Way::anchor && plan.finish == Finish::clamped && cast.rounding == Rounding::nearest_even;
}

// out[i] = code of in[i] * factors[i / Group], for as many of the first n as fill whole vectors; returns how many.
// No product may be NaN; an infinite one is clamped like any other that is too large.
template <std::size_t Group>
std::size_t cast_scaled(const float* in, const float* factors, std::size_t n, std::uint8_t* out,
                        const RoundPlan& plan) noexcept {
  static_assert(Group % lane_count == 0);
  constexpr std::size_t vectors = 8, step = vectors * lane_count;  // enough to hide the latency of each
  const RoundPlan p = plan;                                        // a copy: stores through out cannot change it
  std::size_t i = 0;
  for (; i + step <= n; i += step) {
    WordLanes x[vectors], result[vectors];
    for (std::size_t k = 0; k < vectors; ++k) {
      const std::size_t at = i + k * lane_count;
      x[k] = as_words(as_float(load(in + at)) * factors[at / Group]);
    }
    for (std::size_t k = 0; k < vectors; ++k)
      result[k] = cast_lanes<false, Way::anchor, Rounding::nearest_even, Finish::clamped>(x[k], p, RandomLanes{});
    for (std::size_t k = 0; k < vectors; k += 4)
      store_signed<false>(out + i + k * lane_count, result + k, x + k, p.sign_shift, p.sign_word);
  }
  return i;
}

// Of each group the word of the largest magnitude; NaN is above Inf and Inf above all others.
template <std::size_t Group>
void top_words(const float* in, std::size_t groups, std::uint32_t* tops) noexcept {
  static_assert(Group % lane_count == 0);
  constexpr std::size_t together = 64;
  std::array<std::uint32_t, together * lane_count> lanes;
  for (std::size_t begin = 0; begin < groups; begin += together) {
    const std::size_t count = std::min(together, groups - begin);
    for (std::size_t g = 0; g < count; ++g) {
      const float* x = in + (begin + g) * Group;
      WordLanes top = magnitude(load(x));
      for (std::size_t k = lane_count; k < Group; k += lane_count) top = larger(top, magnitude(load(x + k)));
      store(lanes.data() + g * lane_count, top);
    }
    for (std::size_t g = 0; g < count; ++g) {  // across the lanes of many groups at once
      std::uint32_t top = lanes[g * lane_count];
      for (std::size_t k = 1; k < lane_count; ++k) top = std::max(top, lanes[g * lane_count + k]);
      tops[begin + g] = top;
    }
  }
}

}  // namespace narrow::detail
