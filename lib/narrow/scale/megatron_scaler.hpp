// Megatron-LM's DynamicGradScaler: hysteresis that only growth refills.
//
//   const MegatronScaler scaler;
//   MegatronState state = initial(scaler);
//   state = next(scaler, state, {.found_inf = true});  // the step is skipped
//   const float factor = scale(state);
#pragma once

#include <algorithm>
#include <array>

#include "narrow/base/error.hpp"
#include "narrow/scale/scaler.hpp"

namespace narrow {

// What the scaler remembers.
struct MegatronState {
  float scale = 4294967296.0f;
  std::int64_t growth_tracker = 0;
  std::int64_t hysteresis_tracker = 2;
  ScaleEvent event = ScaleEvent::none;
  friend bool operator==(const MegatronState&, const MegatronState&) = default;
};

// The tracker goes on counting below zero: after the first reduction every later overflow reduces again, until the next
// growth refills it. Two overflows anywhere within one growth window are "consecutive" to it.
struct MegatronScaler {
  using State = MegatronState;
  static constexpr ScalerKind kind = ScalerKind::loss_scaler;
  static constexpr std::string_view name = "megatron", what = "hysteresis, refilled by growth only; floor 1";
  static constexpr std::string_view source =
      "Megatron-LM megatron/core/optimizer/grad_scaler.py DynamicGradScaler, optimizer_config.py";
  static constexpr bool skips_on_inf = true;

  double init = 4294967296.0;
  double min = 1;
  double growth = 2.0;
  double backoff = 0.5;
  std::int64_t growth_interval = 1000;
  std::int64_t hysteresis = 2;

  static constexpr std::array<Parameter<MegatronScaler>, 6> parameters() {
    return {
        {{"init", &MegatronScaler::init, ParameterKind::scale, "initial_scale"},
         {"min", &MegatronScaler::min, ParameterKind::scale, "min_scale"},
         {"growth", &MegatronScaler::growth, ParameterKind::growth, "growth_factor"},
         {"backoff", &MegatronScaler::backoff, ParameterKind::backoff, "backoff_factor"},
         {"growth-interval", &MegatronScaler::growth_interval, ParameterKind::count, "loss_scale_window"},
         {"hysteresis", &MegatronScaler::hysteresis, ParameterKind::count, "overflows before the first reduction"}}};
  }
};
// What scaler.hpp asks of every scaler.
inline void check(const MegatronScaler& p) {
  if (p.min > p.init)
    throw Error("megatron: min " + detail::scale_text(p.min) + " is above init " + detail::scale_text(p.init));
}
inline MegatronState initial(const MegatronScaler& p) { return {detail::to_float(p.init), 0, p.hysteresis}; }

// Scale and factors are FP32 tensors there, so products are FP32 products.
inline MegatronState next(const MegatronScaler& p, MegatronState s, const Observation& seen) {
  s.event = ScaleEvent::none;
  if (seen.found_inf) {
    s.growth_tracker = 0;
    if (--s.hysteresis_tracker > 0) return s.event = ScaleEvent::held_back, s;
    const float before = s.scale, least = detail::to_float(p.min);
    s.scale = std::max(s.scale * detail::to_float(p.backoff), least);
    const ScaleEvent fell = s.scale == before && s.scale == least ? ScaleEvent::at_minimum : ScaleEvent::backed_off;
    s.event = detail::moved(static_cast<double>(s.scale), fell);
    return s;
  }
  if (++s.growth_tracker < p.growth_interval) return s;
  s.growth_tracker = 0;
  s.hysteresis_tracker = p.hysteresis;
  s.scale = s.scale * detail::to_float(p.growth);
  s.event = detail::moved(static_cast<double>(s.scale), ScaleEvent::grew);
  return s;
}
// The scale now; and the state in words.
inline float scale(const MegatronState& s) { return s.scale; }
inline std::string to_text(const MegatronState& s) {
  return "scale " + detail::scale_text(static_cast<double>(s.scale)) + ", growth_tracker " +
         std::to_string(s.growth_tracker) + ", hysteresis_tracker " + std::to_string(s.hysteresis_tracker);
}

}  // namespace narrow
