// Keras' LossScaleOptimizer: never below 1.
//
//   const KerasScaler scaler;
//   KerasState state = initial(scaler);
//   state = next(scaler, state, {.found_inf = true});  // the step is skipped
//   const float factor = scale(state);
#pragma once

#include <algorithm>
#include <array>

#include "narrow/scale/scaler.hpp"

namespace narrow {

// What the scaler remembers.
struct KerasState {
  float scale = 32768;
  std::int64_t good_steps = 0;
  ScaleEvent event = ScaleEvent::none;
  friend bool operator==(const KerasState&, const KerasState&) = default;
};

// Its parameters, with the defaults of the framework.
struct KerasScaler {
  using State = KerasState;
  static constexpr ScalerKind kind = ScalerKind::loss_scaler;
  static constexpr std::string_view name = "keras", what = "floor 1, growth to Inf is not kept";
  static constexpr std::string_view source = "keras mixed_precision LossScaleOptimizer; floor: keras issue 16100";
  static constexpr bool skips_on_inf = true;

  double init = 32768;
  double min = 1;
  double factor = 2.0;
  std::int64_t growth_interval = 2000;

  static constexpr std::array<Parameter<KerasScaler>, 4> parameters() {
    return {{{"init", &KerasScaler::init, ParameterKind::scale, "initial_scale"},
             {"min", &KerasScaler::min, ParameterKind::scale, "the floor"},
             {"growth", &KerasScaler::factor, ParameterKind::growth, "multiplier, both ways"},
             {"growth-interval", &KerasScaler::growth_interval, ParameterKind::count, "dynamic_growth_steps"}}};
  }
};
// What scaler.hpp asks of every scaler.
inline void check(const KerasScaler&) {}
inline KerasState initial(const KerasScaler& p) { return {detail::to_float(p.init)}; }

// FP32 variables.
inline KerasState next(const KerasScaler& p, KerasState s, const Observation& seen) {
  const float before = s.scale, factor = detail::to_float(p.factor), least = detail::to_float(p.min);
  s.event = ScaleEvent::none;
  if (seen.found_inf) {
    s.good_steps = 0;
    s.scale = std::max(before / factor, least);
    s.event = s.scale == before && s.scale == least ? ScaleEvent::at_minimum : ScaleEvent::backed_off;
    return s;
  }
  if (++s.good_steps < p.growth_interval) return s;
  s.good_steps = 0;
  if (!std::isfinite(before * factor)) return s.event = ScaleEvent::at_maximum, s;
  s.scale = before * factor;
  s.event = ScaleEvent::grew;
  return s;
}
// The scale now; and the state in words.
inline float scale(const KerasState& s) { return s.scale; }
inline std::string to_text(const KerasState& s) {
  return "scale " + detail::scale_text(static_cast<double>(s.scale)) + ", good_steps " + std::to_string(s.good_steps);
}

}  // namespace narrow
