// Which power of two scales a block: the E8M0 code as a function of the block's largest magnitude, by named rules.
// There is no one correct rule; each is what some system does.
//
//   const std::uint8_t code = e8m0_scale(/*amax=*/100.0F, E8m0Element{"e4m3"_fmt}, ScaleRule::ocp_floor);
//   const float factor = e8m0_value(code);
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>

#include "narrow/base/bits.hpp"
#include "narrow/format/decode.hpp"
#include "narrow/scale/scale_rule.hpp"
#include "narrow/scale/tensor_scale.hpp"

namespace narrow {

// The one code that is no power of two.
inline constexpr std::uint8_t e8m0_nan = 255;

// What the rules need to know of an element format, computed once for many blocks.
struct E8m0Element {
  int emax;               // exponent of the largest power of two (OCP MX 1.0)
  float largest;          // the largest value
  float inverse_largest;  // its reciprocal, rounded to float
  float half_range;       // half the distance between the lowest and the largest value
  int mantissa_bits;

  E8m0Element(const Format& f)
      : emax(f.max_exponent()),
        largest(static_cast<float>(narrow::largest(f))),
        inverse_largest(1 / largest),
        half_range(largest / 2 - static_cast<float>(narrow::lowest(f)) / 2),
        mantissa_bits(f.mantissa_bits) {}
};

namespace detail {

// floor(log2 x) of a finite x > 0, from its bits: floor(log2f(x)) is one too high just below many powers of two.
constexpr int floor_log2(float x) noexcept {
  const std::uint32_t word = std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu;
  return word >= 0x00800000u ? static_cast<int>(word >> 23) - 127 : bit_length(std::uint64_t{word}) - 150;
}

// A float's exponent field (0 for zero and all subnormals, 1 for 2^-126, ..) less emax is the code of the scale: the
// bias of both is 127, so floor(log2 x) - emax + 127 = field - emax. Subnormals have codes below 0, that is 0, anyway.
constexpr std::uint8_t code_of_field(int field, int emax) noexcept {
  return static_cast<std::uint8_t>(std::clamp(field - emax, 0, 254));
}

// The smallest 2^e >= x >= 0 as a code: one more than the field when there is a fraction. Code 0 is 2^-127, a
// subnormal.
constexpr std::uint8_t code_above(float x) noexcept {
  const std::uint32_t word = std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu;
  const std::uint32_t up = word >= 0x00800000u ? ((word & 0x7FFFFFu) != 0 ? 1u : 0u) : (word > 0x00400000u ? 1u : 0u);
  return static_cast<std::uint8_t>(std::min((word >> 23) + up, 254u));
}

}  // namespace detail

// amax: largest magnitude of the block; Inf or NaN when the rule lets one through (see takes_nan). Rules:
//   ocp_floor       2^(floor(log2 amax) - emax); 0 gives the smallest scale; Inf and NaN give NaN
//   torchao_ceil    as ocp_floor, one more when amax is no power of two
//   torchao_even    as ocp_floor, after half of the element's last place was added to amax: an amax whose rounding
//                   carries into the next binade counts as that one (and to Inf, hence NaN, at the top of float)
//   cuda_round_up   the smallest power of two not below amax * (1 / largest element), the reciprocal rounded to float;
//                   Inf gives the largest scale
//   torchao_rceil   the same, but Inf gives NaN
//   deepgemm        amax (at least 1e-4) / largest element rounded up to a power of two, code 1 to 254
//   ct_mx           as torchao_even, but E4M3 is taken for E2M1: a quarter of the leading bit is added
constexpr std::uint8_t e8m0_scale(float amax, const E8m0Element& element, ScaleRule rule) noexcept {
  constexpr std::uint32_t inf_word = 0x7F800000;
  const std::uint32_t word = std::bit_cast<std::uint32_t>(amax) & 0x7FFFFFFFu;
  const auto field = static_cast<int>(word >> 23);
  switch (rule) {
    case ScaleRule::torchao_ceil:
      return word >= inf_word ? e8m0_nan
                              : detail::code_of_field(field + ((word & 0x7FFFFFu) != 0 ? 1 : 0), element.emax);
    case ScaleRule::ct_mx:
    case ScaleRule::torchao_even: {
      const bool as_e2m1 = rule == ScaleRule::ct_mx && element.emax != 2;  // E2M1 and E2M3 count their own bits
      const std::uint32_t rounded = word + (1u << (22 - (as_e2m1 ? 1 : element.mantissa_bits)));
      return rounded >= inf_word ? e8m0_nan : detail::code_of_field(static_cast<int>(rounded >> 23), element.emax);
    }
    case ScaleRule::cuda_round_up:
      return word > inf_word ? e8m0_nan : detail::code_above(amax * element.inverse_largest);
    case ScaleRule::torchao_rceil:
      return word >= inf_word ? e8m0_nan : detail::code_above(amax * element.inverse_largest);
    case ScaleRule::deepgemm:
      return static_cast<std::uint8_t>(
          std::bit_cast<std::uint32_t>(deepgemm_decode_scale(amax, element.largest, true)) >> 23);
    default: break;  // ocp_floor
  }
  return word >= inf_word ? e8m0_nan : detail::code_of_field(field, element.emax);
}

// 2^(code - 127), NaN for 255; and what elements are multiplied by, 2^(127 - code): both are floats, 2^-127 a
// subnormal.
constexpr float e8m0_value(std::uint8_t code) noexcept {
  if (code == e8m0_nan) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(code == 0 ? 0x00400000u : static_cast<std::uint32_t>(code) << 23);
}
constexpr float e8m0_inverse(std::uint8_t code) noexcept {
  return code == e8m0_nan ? e8m0_value(code) : e8m0_value(static_cast<std::uint8_t>(254 - code));
}

}  // namespace narrow
