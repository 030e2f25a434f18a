// No scaling and a constant loss scale: what the dynamic scalers are compared with.
//
//   const FixedState state = initial(ConstantScale{.init = 1024});
//   const float factor = scale(state);  // 1024, for ever
#pragma once

#include <array>

#include "narrow/scale/scaler.hpp"

namespace narrow {

// A scale that stays.
struct FixedState {
  float scale = 1;
  ScaleEvent event = ScaleEvent::none;
  friend bool operator==(const FixedState&, const FixedState&) = default;
};
// The scale now; and the state in words.
inline float scale(const FixedState& s) { return s.scale; }
inline std::string to_text(const FixedState& s) { return "scale " + detail::scale_text(static_cast<double>(s.scale)); }

// Scale 1, and nobody looks for Inf: the optimizer steps on whatever comes.
struct NoScale {
  using State = FixedState;
  static constexpr ScalerKind kind = ScalerKind::loss_scaler;
  static constexpr std::string_view name = "none", what = "no loss scaling: overflow is not even looked for";
  static constexpr std::string_view source = "FP32 and BF16 training";
  static constexpr bool skips_on_inf = false;
  static constexpr std::array<Parameter<NoScale>, 0> parameters() { return {}; }
};
// What scaler.hpp asks of every scaler.
inline void check(const NoScale&) {}
inline FixedState initial(const NoScale&) { return {}; }
inline FixedState next(const NoScale&, FixedState s, const Observation&) { return s; }

// One scale for the whole run.
struct ConstantScale {
  using State = FixedState;
  static constexpr ScalerKind kind = ScalerKind::loss_scaler;
  static constexpr std::string_view name = "constant";
  static constexpr std::string_view what = "one loss scale for ever; steps with Inf or NaN are skipped";
  static constexpr std::string_view source =
      "Megatron-LM megatron/core/optimizer/grad_scaler.py ConstantGradScaler; DeepSpeed static loss scale";
  static constexpr bool skips_on_inf = true;

  double init = 65536;

  static constexpr std::array<Parameter<ConstantScale>, 1> parameters() {
    return {{{"init", &ConstantScale::init, ParameterKind::scale, "the loss scale"}}};
  }
};
// What scaler.hpp asks of every scaler.
inline void check(const ConstantScale&) {}
inline FixedState initial(const ConstantScale& p) { return {detail::to_float(p.init)}; }
inline FixedState next(const ConstantScale&, FixedState s, const Observation& seen) {
  s.event = seen.found_inf ? ScaleEvent::at_minimum : ScaleEvent::none;
  return s;
}

}  // namespace narrow
