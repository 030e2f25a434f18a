// FP8 scales of a tensor, row or block as a function of its largest magnitude alone: Transformer Engine's current
// scaling, torchao, DeepGEMM. x_fp8 = saturate(x * scale); a product is multiplied by the inverse afterwards.
//
//   const CurrentState state = next(TeCurrentScaling{}, {}, {.amax = 3.5F});
//   const float factor = scale(state);
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "narrow/base/error.hpp"
#include "narrow/format/decode.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/scale/scaler.hpp"

namespace narrow {

// HYBRID: which FP8 format a pass of training uses. Gradients need range, weights and activations precision.
enum class TrainingPass : std::uint8_t { forward, backward };
constexpr Format hybrid_format(TrainingPass pass) noexcept {
  return pass == TrainingPass::forward ? "e4m3"_fmt : "e5m2"_fmt;
}

namespace detail {

// The power of two not above a normal x > 0: the mantissa bits cleared.
constexpr float power_of_two_below(float x) noexcept {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xFF800000u);
}

// 2^floor(log2 x) with log2 rounded to float before the floor, for a normal x > 0: just below most powers of two the
// logarithm rounds to that power's, and the result is above x. torch.log2 on CPU (2.13) is the correctly rounded one
// for the 129 floats on either side of every power; so is this, as no logarithm of a double is near a rounding
// boundary.
constexpr float power_of_two_by_log2(float x) noexcept {
  const auto log2 = static_cast<float>(std::log2(static_cast<double>(x)));
  return std::ldexp(1.0f, static_cast<int>(std::floor(log2)));
}

inline constexpr float float_max = std::numeric_limits<float>::max();

}  // namespace detail

// Transformer Engine's rule. An amax of 0, Inf or NaN gives 1. An amax so small that the quotient overflows gives
// if_infinite: the largest float for current scaling, the largest finite value of the input type for 1x128 blocks.
constexpr float te_scale(float amax, float fp8_max, bool power_of_two, float epsilon = 0,
                      float if_infinite = detail::float_max) {
  if (amax < epsilon) amax = epsilon;
  if (!std::isfinite(amax) || amax == 0) return 1;
  float scale = fp8_max / amax;
  if (std::isinf(scale)) scale = if_infinite;
  return power_of_two ? detail::power_of_two_below(scale) : scale;
}

// torchao's rule: the quotient in double, rounded once to float. Infinite data gives 0, NaN gives NaN. As a power of
// two
// (_round_scale_down_to_power_of_2, torchao 0.19) it can lie above the quotient: amax 28 + 2^-19 gives 16, not 8.
constexpr float torchao_scale(float amax, float fp8_max, bool power_of_two) {
  constexpr double least_amax = 1e-12;
  const double wide = static_cast<double>(amax);
  const float scale = detail::to_float(static_cast<double>(fp8_max) / (wide < least_amax ? least_amax : wide));
  return power_of_two && scale > 0 ? detail::power_of_two_by_log2(scale) : scale;
}

// DeepGEMM's rule gives the decode scale, amax / fp8_max, for amax at least 1e-4; as UE8M0 it is rounded up to a power
// of two with an exponent field of 1 to 254 (so that a NaN becomes 2^127). Elements are multiplied by its reciprocal.
constexpr float deepgemm_decode_scale(float amax, float fp8_max, bool ue8m0) {
  constexpr float least_amax = 1e-4f;
  const float scale = (amax < least_amax ? least_amax : amax) / fp8_max;
  if (!ue8m0) return scale;
  const std::uint32_t word = std::bit_cast<std::uint32_t>(scale) & 0x7FFFFFFFu;
  const std::uint32_t field = (word >> 23) + ((word & 0x7FFFFFu) != 0 ? 1u : 0u);
  return std::bit_cast<float>(std::clamp(field, 1u, 254u) << 23);
}

// compressed-tensors divides amax by half the width of the element's range, 448 for E4M3 and 127.5 for int8; what is 0
// then becomes the epsilon of FP32.
constexpr float ct_decode_scale(float amax, float half_range) {
  const float scale = amax / half_range;
  return scale == 0 ? 0x1p-23f : scale;
}

// The same rules as scalers: the scale that a step uses is that of the amax it sees, nothing is remembered.
struct CurrentState {
  float scale = 1;
  ScaleEvent event = ScaleEvent::none;
  friend bool operator==(const CurrentState&, const CurrentState&) = default;
};
// The scale now; and the state in words.
inline float scale(const CurrentState& s) { return s.scale; }
inline std::string to_text(const CurrentState& s) {
  return "scale " + detail::scale_text(static_cast<double>(s.scale));
}

namespace detail {
inline CurrentState current(float scale) { return {scale, moved(static_cast<double>(scale), ScaleEvent::none)}; }
}  // namespace detail

// Float8CurrentScaling of Transformer Engine.
struct TeCurrentScaling {
  using State = CurrentState;
  static constexpr ScalerKind kind = ScalerKind::tensor_recipe;
  static constexpr std::string_view name = "te-current", what = "FP8_MAX / amax of this very tensor";
  static constexpr std::string_view source =
      "TransformerEngine common/recipe/recipe_common.cuh, current_scaling.cu (Float8CurrentScaling)";
  static constexpr bool skips_on_inf = false;
  static constexpr bool is_immediate = true;

  double fp8_max = 448;
  double epsilon = 0;
  bool power_of_two = false;

  static constexpr std::array<Parameter<TeCurrentScaling>, 3> parameters() {
    return {{{"fp8-max", &TeCurrentScaling::fp8_max, ParameterKind::scale, "448 forward (E4M3), 57344 backward (E5M2)"},
             {"epsilon", &TeCurrentScaling::epsilon, ParameterKind::magnitude, "the least amax"},
             {"power-of-two", &TeCurrentScaling::power_of_two, ParameterKind::flag,
              "round the scale down to a power of two"}}};
  }
};
// What scaler.hpp asks of every scaler.
inline void check(const TeCurrentScaling&) {}
inline float limit(const TeCurrentScaling& p) { return detail::to_float(p.fp8_max); }
inline CurrentState initial(const TeCurrentScaling&) { return {}; }
inline CurrentState next(const TeCurrentScaling& p, const CurrentState&, const Observation& seen) {
  return detail::current(te_scale(seen.amax, detail::to_float(p.fp8_max), p.power_of_two, detail::to_float(p.epsilon)));
}

// Float8BlockScaling of Transformer Engine.
struct TeBlockScaling {
  using State = CurrentState;
  static constexpr ScalerKind kind = ScalerKind::tensor_recipe;
  static constexpr std::string_view name = "te-block", what = "a 1x128 or 128x128 block: as te-current, a power of two";
  static constexpr std::string_view source = "TransformerEngine Float8BlockScaling (common/recipe/__init__.py)";
  static constexpr bool skips_on_inf = false;
  static constexpr bool is_immediate = true;

  double fp8_max = 448;
  double input_max = static_cast<double>(detail::float_max);
  bool power_of_two = true;

  static constexpr std::array<Parameter<TeBlockScaling>, 3> parameters() {
    return {{{"fp8-max", &TeBlockScaling::fp8_max, ParameterKind::scale, "448: E4M3 everywhere by default"},
             {"input-max", &TeBlockScaling::input_max, ParameterKind::scale,
              "largest value of the input type, for an infinite scale"},
             {"power-of-two", &TeBlockScaling::power_of_two, ParameterKind::flag,
              "0: NVTE_FP8_BLOCK_SCALING_FP32_SCALES=1"}}};
  }
};
// What scaler.hpp asks of every scaler.
inline void check(const TeBlockScaling&) {}
inline float limit(const TeBlockScaling& p) { return detail::to_float(p.fp8_max); }
inline CurrentState initial(const TeBlockScaling&) { return {}; }
inline CurrentState next(const TeBlockScaling& p, const CurrentState&, const Observation& seen) {
  return detail::current(
      te_scale(seen.amax, detail::to_float(p.fp8_max), p.power_of_two, 0, detail::to_float(p.input_max)));
}

// Dynamic scaling of torchao.
struct TorchaoScaling {
  using State = CurrentState;
  static constexpr ScalerKind kind = ScalerKind::tensor_recipe;
  static constexpr std::string_view name = "torchao";
  static constexpr std::string_view what = "tensorwise (or, for the amax of a row, rowwise) dynamic scaling";
  static constexpr std::string_view source = "torchao torchao/float8/float8_utils.py amax_to_scale";
  static constexpr bool skips_on_inf = false;
  static constexpr bool is_immediate = true;

  double fp8_max = 448;
  bool power_of_two = false;

  static constexpr std::array<Parameter<TorchaoScaling>, 2> parameters() {
    return {{{"fp8-max", &TorchaoScaling::fp8_max, ParameterKind::scale, "448 (E4M3), 57344 (E5M2)"},
             {"power-of-two", &TorchaoScaling::power_of_two, ParameterKind::flag,
              "2^floor(log2 of the scale), log2 rounded to FP32"}}};
  }
};
// What scaler.hpp asks of every scaler.
inline void check(const TorchaoScaling&) {}
inline float limit(const TorchaoScaling& p) { return detail::to_float(p.fp8_max); }
inline CurrentState initial(const TorchaoScaling&) { return {}; }
inline CurrentState next(const TorchaoScaling& p, const CurrentState&, const Observation& seen) {
  return detail::current(torchao_scale(seen.amax, detail::to_float(p.fp8_max), p.power_of_two));
}

// The scales of DeepGEMM.
struct DeepGemmScaling {
  using State = CurrentState;
  static constexpr ScalerKind kind = ScalerKind::tensor_recipe;
  static constexpr std::string_view name = "deepgemm";
  static constexpr std::string_view what = "a 1x128 or 128x128 block: 1 / (amax / 448), amax at least 1e-4";
  static constexpr std::string_view source = "DeepGEMM deep_gemm/utils/math.py";
  static constexpr bool skips_on_inf = false;
  static constexpr bool is_immediate = true;

  double fp8_max = 448;
  bool ue8m0 = false;

  static constexpr std::array<Parameter<DeepGemmScaling>, 2> parameters() {
    return {{{"fp8-max", &DeepGemmScaling::fp8_max, ParameterKind::scale, "448: E4M3"},
             {"ue8m0", &DeepGemmScaling::ue8m0, ParameterKind::flag, "round the decode scale up to a power of two"}}};
  }
};
// What scaler.hpp asks of every scaler.
inline void check(const DeepGemmScaling&) {}
inline float limit(const DeepGemmScaling& p) { return detail::to_float(p.fp8_max); }
inline CurrentState initial(const DeepGemmScaling&) { return {}; }
inline CurrentState next(const DeepGemmScaling& p, const CurrentState&, const Observation& seen) {
  return detail::current(1 / deepgemm_decode_scale(seen.amax, detail::to_float(p.fp8_max), p.ue8m0));
}

}  // namespace narrow
