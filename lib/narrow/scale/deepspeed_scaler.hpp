// DeepSpeed's DynamicLossScaler: a window counted from the last overflow, hysteresis, and an error at the minimum.
//
//   const DeepSpeedScaler scaler;
//   DeepSpeedState state = initial(scaler);
//   state = next(scaler, state, {.found_inf = true});  // the step is skipped
//   const float factor = scale(state);
#pragma once

#include <algorithm>
#include <array>

#include "narrow/base/error.hpp"
#include "narrow/scale/scaler.hpp"

namespace narrow {

// What the scaler remembers.
struct DeepSpeedState {
  double scale = 65536;
  std::int64_t iteration = 0;
  std::int64_t last_overflow = -1;
  std::int64_t hysteresis = 2;
  ScaleEvent event = ScaleEvent::none;
  friend bool operator==(const DeepSpeedState&, const DeepSpeedState&) = default;
};

// Growth needs stable = iteration - last_overflow - 1 to be a positive multiple of the window. That is window + 1 good
// steps for the first growth (the good step right after an overflow has stable 0), and window for each later one.
// A reduction does not refill the hysteresis: from then on every overflow reduces, until growth.
struct DeepSpeedScaler {
  using State = DeepSpeedState;
  static constexpr ScalerKind kind = ScalerKind::loss_scaler;
  static constexpr std::string_view name = "deepspeed";
  static constexpr std::string_view what = "window + 1 to grow first, hysteresis; an error at the minimum";
  static constexpr std::string_view source =
      "DeepSpeed deepspeed/runtime/fp16/loss_scaler.py DynamicLossScaler, precision_config.py";
  static constexpr bool skips_on_inf = true;

  double init = 65536;
  double min = 1;
  double factor = 2.0;
  std::int64_t growth_interval = 1000;
  std::int64_t hysteresis = 2;
  bool consecutive_hysteresis = false;
  bool raise_at_min = true;

  static constexpr std::array<Parameter<DeepSpeedScaler>, 7> parameters() {
    return {{{"init", &DeepSpeedScaler::init, ParameterKind::scale, "2^initial_scale_power"},
             {"min", &DeepSpeedScaler::min, ParameterKind::scale, "min_loss_scale (0.25 for the unfused profile)"},
             {"growth", &DeepSpeedScaler::factor, ParameterKind::growth, "scale_factor, both ways"},
             {"growth-interval", &DeepSpeedScaler::growth_interval, ParameterKind::count, "loss_scale_window"},
             {"hysteresis", &DeepSpeedScaler::hysteresis, ParameterKind::count, "overflows before the first reduction"},
             {"consecutive-hysteresis", &DeepSpeedScaler::consecutive_hysteresis, ParameterKind::flag,
              "every good step refills the hysteresis"},
             {"raise-at-min", &DeepSpeedScaler::raise_at_min, ParameterKind::flag,
              "an overflow at the minimum ends the run"}}};
  }
};
// What scaler.hpp asks of every scaler.
inline void check(const DeepSpeedScaler&) {}
inline DeepSpeedState initial(const DeepSpeedScaler& p) { return {p.init, 0, -1, p.hysteresis}; }

// Python floats: double arithmetic. Once ended, the state stays as the error found it.
inline DeepSpeedState next(const DeepSpeedScaler& p, DeepSpeedState s, const Observation& seen) {
  if (s.event == ScaleEvent::ended) return s;
  s.event = ScaleEvent::none;
  if (seen.found_inf) {
    if (p.hysteresis == 1 || s.hysteresis == 1) {
      if (s.scale == p.min && p.raise_at_min) return s.event = ScaleEvent::ended, s;
      const ScaleEvent fell = s.scale == p.min ? ScaleEvent::at_minimum : ScaleEvent::backed_off;
      s.scale = std::max(s.scale / p.factor, p.min);
      s.event = detail::moved(s.scale, fell);
    } else {
      --s.hysteresis;
      s.event = ScaleEvent::held_back;
    }
    s.last_overflow = s.iteration;
  } else {
    if (p.consecutive_hysteresis) s.hysteresis = p.hysteresis;
    const std::int64_t stable = s.iteration - s.last_overflow - 1;
    if (stable > 0 && stable % p.growth_interval == 0) {
      if (!p.consecutive_hysteresis) s.hysteresis = p.hysteresis;
      s.scale *= p.factor;
      s.event = detail::moved(s.scale, ScaleEvent::grew);
    }
  }
  ++s.iteration;
  return s;
}
// The scale now; and the state in words.
inline float scale(const DeepSpeedState& s) { return detail::to_float(s.scale); }
inline std::string to_text(const DeepSpeedState& s) {
  return "scale " + detail::scale_text(s.scale) + ", iteration " + std::to_string(s.iteration) + ", last_overflow " +
         std::to_string(s.last_overflow) + ", hysteresis " + std::to_string(s.hysteresis) +
         (s.event == ScaleEvent::ended ? ", ended" : "");
}

}  // namespace narrow
