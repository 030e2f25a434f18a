// The scale of one block: its code, what elements are multiplied by, and what decodes them. Scalar and plain; the array
// code does the same faster. constexpr, so that kernels of a GPU call it too.
//
//   const BlockFormat f = require_block_format("nvfp4");
//   const TensorScale of_tensor = tensor_scale(/*amax=*/100.0F, f);
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "narrow/round/round_to.hpp"
#include "narrow/scale/block_format.hpp"
#include "narrow/scale/e8m0_rule.hpp"
#include "narrow/scale/tensor_scale.hpp"

namespace narrow {

// The level above the blocks, from the largest magnitude of the whole tensor. Only NVFP4 has one.
struct TensorScale {
  float amax = 0;
  float encode = 1;  // te: S = 2688 / amax, or 1536 / amax; torchao: 1 / T; ct: G
  float stored = 1;  // what is kept beside the blocks: te: amax itself; torchao, modelopt: T = amax / 2688; ct: G
};

// The largest scale times the largest element; four over six leaves room for a scale that is half as large again.
constexpr float nvfp4_range(ScaleRule rule) noexcept { return (tries_two_scales(rule) ? 256.0f : 448.0f) * 6.0f; }

// The factor of a whole tensor, where the format has one.
constexpr TensorScale tensor_scale(float amax, const BlockFormat& f) {
  constexpr float float_min = std::numeric_limits<float>::min();
  TensorScale t{amax};
  if (keeps_amax(f.rule)) {
    t.stored = amax;
    t.encode = std::fmin(nvfp4_range(f.rule) / amax, detail::float_max);
    if (amax == 0 || t.encode == 0) t.encode = 1;
  } else if (f.rule == ScaleRule::ct_nvfp4) {
    const float factor = nvfp4_range(f.rule) / (amax < float_min ? float_min : amax);
    t.stored = t.encode = factor <= detail::float_max ? factor : 1;  // amax of 0 or NaN
  } else if (f.rule == ScaleRule::torchao_nvfp4 || f.rule == ScaleRule::modelopt_nvfp4) {
    t.stored = amax / nvfp4_range(f.rule);  // 0 for a tensor of zeros: its block scales are 0 / 0
    t.encode = 1 / t.stored;
  }
  return t;
}

// What files hold beside the blocks: a value is code * (scale * factor). Where te clamps S, or takes 1 for want of one,
// amax / 2688 is not its inverse. Where ct divides by G, files multiply by its inverse.
inline float file_factor(const TensorScale& t, const BlockFormat& f) noexcept {
  if (f.rule == ScaleRule::ct_nvfp4) return 1 / t.stored;
  if (!keeps_amax(f.rule)) return t.stored;
  if (t.amax == 0 || std::isinf(t.amax)) return 1 / t.encode;
  return t.encode == detail::float_max ? 1 / t.encode : t.amax / nvfp4_range(f.rule);
}

// The same from what is kept.
inline float file_factor(float stored, const BlockFormat& f) noexcept {
  if (keeps_amax(f.rule)) return file_factor(tensor_scale(stored, f), f);
  return file_factor({.amax = stored, .stored = stored}, f);
}

// The scale of a block, both ways round.
struct BlockScale {
  float stored = 1;  // the value of the scale that is kept: 2^e, an E4M3 value, or an FP32 decode scale
  float encode = 1;  // elements are cast from x * encode, or from x / encode where the rule divides
};

// Stored times this decodes an element. te: ((s * amax) * (1 / 2688)), not the inverse of S; torchao: T * s; ct: s / G.
constexpr float decode_factor(float stored, const TensorScale& t, const BlockFormat& f) noexcept {
  if (keeps_amax(f.rule)) return stored * t.amax * (1 / nvfp4_range(f.rule));
  if (f.rule == ScaleRule::torchao_nvfp4 || f.rule == ScaleRule::modelopt_nvfp4) return t.stored * stored;
  if (f.rule == ScaleRule::ct_nvfp4) return stored / t.stored;
  return stored;
}

namespace detail {

// The scale as a value of E4M3; kernels of a GPU have a faster way to the same bits.
struct RoundToE4m3 {
  constexpr float operator()(float x) const { return round_to(x, "e4m3"_fmt, {.overflow = Overflow::saturate}); }
};

template <class Round>
constexpr BlockScale nvfp4_te(float amax, const TensorScale& t, const Round& round) {
  const float s = round(amax * (t.encode * (1 / 6.0f)));
  return {s, std::fmin(1 / (s * (1 / t.encode)), float_max)};
}

// The scale by which amax becomes 6 (expansion 1) or 4 (expansion 1.5).
template <class Round>
constexpr BlockScale nvfp4_4over6(float amax, float expansion, const TensorScale& t, const Round& round) {
  const float s = round(amax / 6.0f * t.encode * expansion);
  return {s, std::fmin(1 / (s * (1 / t.encode)), float_max)};
}

// The clamp starts at the smallest NORMAL value of E4M3, so blocks of zeros and of small values keep 2^-6.
template <class Round>
constexpr BlockScale nvfp4_torchao(float amax, const TensorScale& t, const Round& round) {
  const float wanted = amax / 6.0f / t.stored;
  const float s = round(wanted < 0x1p-6f ? 0x1p-6f : wanted > 448.0f ? 448.0f : wanted);  // NaN stays
  return {s, t.encode / s};
}

template <class Round>
constexpr BlockScale nvfp4_ct(float amax, const TensorScale& t, const Round& round) {
  const float rounded = round(t.encode * (amax / 6.0f)), s = rounded == 0 ? 0.125f : rounded;
  return {s, s / t.encode};
}

// A tensor of zeros has NaN scales: 0 / 0 is asked for before the clamp.
template <class Round>
constexpr BlockScale nvfp4_modelopt(float amax, const TensorScale& t, const Round& round) {
  const float quotient = amax / (6.0f * t.stored), wanted = quotient == 0 ? 1.0f : quotient;
  const float s = round(wanted < 0x1p-9f ? 0x1p-9f : wanted > 448.0f ? 448.0f : wanted);  // NaN stays
  return {s, s * t.stored};
}

constexpr BlockScale from_encode(float encode) { return {1 / encode, encode}; }
constexpr BlockScale from_decode(float decode) { return {decode, 1 / decode}; }

}  // namespace detail

// The errors of a block's rows under two scales. Within a row they are added from left to right, rows as a tree:
//   ((0 + 8) + (4 + 12)) + ((2 + 10) + (6 + 14)) + ...
struct FourOverSix {
  static constexpr std::size_t most_rows = 16;
  BlockScale scales[2];  // to 6, to 4
  float errors[2][most_rows] = {};

  // Adds what an element x has become under one of them.
  constexpr void add(int which, std::size_t row, float x, float element, const TensorScale& t, ScaleRule rule) {
    const float value = element * scales[which].stored * t.amax / nvfp4_range(rule), error = value - x;
    errors[which][row] += rule == ScaleRule::te_4over6_mse ? error * error : error < 0 ? -error : error;
  }
  // The better one; the first where they are equal, or a NaN is among them.
  constexpr const BlockScale& better() {
    for (std::size_t n = most_rows / 2; n > 0; n /= 2)
      for (std::size_t r = 0; r < n; ++r) errors[0][r] += errors[0][r + n], errors[1][r] += errors[1][r + n];
    return scales[errors[1][0] < errors[0][0] ? 1 : 0];
  }
};

namespace detail {

// Of the rules that follow from amax alone. amax: of the block as block_amax_of takes it.
template <class Round>
constexpr BlockScale block_scale(float amax, ScaleRule rule, const E8m0Element& element, const TensorScale& tensor,
                                 const Round& round) {
  switch (rule) {
    case ScaleRule::te_nvfp4_row:  // tensor: of the row
    case ScaleRule::te_nvfp4: return nvfp4_te(amax, tensor, round);
    case ScaleRule::nvfp4_single:  // with a factor of 1
    case ScaleRule::torchao_nvfp4: return nvfp4_torchao(amax, tensor, round);
    case ScaleRule::ct_nvfp4: return nvfp4_ct(amax, tensor, round);
    case ScaleRule::modelopt_nvfp4: return nvfp4_modelopt(amax, tensor, round);
    case ScaleRule::te_current:
    case ScaleRule::te_block_fp32: return from_encode(te_scale(amax, element.largest, false));
    case ScaleRule::te_current_pow2:
    case ScaleRule::te_block: return from_encode(te_scale(amax, element.largest, true));
    case ScaleRule::torchao_fp8: return from_encode(torchao_scale(amax, element.largest, false));
    case ScaleRule::torchao_fp8_pow2: return from_encode(torchao_scale(amax, element.largest, true));
    case ScaleRule::deepgemm_fp32: return from_decode(deepgemm_decode_scale(amax, element.largest, false));
    case ScaleRule::deepgemm_ue8m0: return from_decode(deepgemm_decode_scale(amax, element.largest, true));
    case ScaleRule::ct_fp8:
    case ScaleRule::ct_int: {
      const float scale = ct_decode_scale(amax, element.half_range);
      return {scale, scale};
    }
    default: break;
  }
  const std::uint8_t code = e8m0_scale(amax, element, rule);
  if (divides(rule))
    return {e8m0_value(code), code == e8m0_nan ? std::numeric_limits<float>::infinity() : e8m0_value(code)};
  return {e8m0_value(code), e8m0_inverse(code)};
}

template <class Round>
constexpr FourOverSix two_scales(float amax, const TensorScale& tensor, const Round& round) {
  return {{nvfp4_4over6(amax, 1, tensor, round), nvfp4_4over6(amax, 1.5f, tensor, round)}};
}

}  // namespace detail

// How the blocks of one tensor get their scales.
struct BlockScaling {
  BlockFormat format;
  TensorScale tensor;
  E8m0Element element;

  BlockScaling(const BlockFormat& f, const TensorScale& t) : format(f), tensor(t), element(f.element) {}

  constexpr FourOverSix two_scales(float amax) const { return detail::two_scales(amax, tensor, detail::RoundToE4m3{}); }
  constexpr BlockScale operator()(float amax) const {
    return detail::block_scale(amax, format.rule, element, tensor, detail::RoundToE4m3{});
  }
};

// Largest magnitude; Inf counts, NaN as the rule says. (Not fmax: with a signalling NaN it forgets what came before.)
inline float block_amax_of(std::span<const float> x, ScaleRule rule) noexcept {
  float amax = 0;
  for (const float v : x) {
    if (std::isnan(v) && takes_nan(rule)) return std::numeric_limits<float>::quiet_NaN();
    if (std::abs(v) > amax) amax = std::abs(v);
  }
  return amax;
}

// Under the scale of its block, not yet cast. Adding 0 makes 0 of -0 and changes nothing else.
constexpr float scaled_by(float x, float encode, ScaleRule rule) noexcept {
  return divides(rule) ? x / encode + 0.0f : x * encode;
}

// Whether integers keep to as many values below zero as above: MX leaves the lowest code unused.
constexpr bool clamps_evenly(const BlockFormat& f) noexcept { return f.element.twos_complement && !divides(f.rule); }

// What is cast to the element format.
constexpr float scaled_element(float x, float encode, const BlockFormat& f) noexcept {
  const float scaled = scaled_by(x, encode, f.rule);
  if (!clamps_evenly(f)) return scaled;
  const auto limit = static_cast<float>(largest(f.element));
  return scaled > limit ? limit : scaled < -limit ? -limit : scaled;
}

}  // namespace narrow
