// NVIDIA Apex amp's LossScaler: halve on overflow, double after a window, never above 2^24.
//
//   const ApexScaler scaler;
//   ApexState state = initial(scaler);
//   state = next(scaler, state, {.found_inf = true});  // the step is skipped
//   const float factor = scale(state);
#pragma once

#include <algorithm>
#include <array>

#include "narrow/base/error.hpp"
#include "narrow/scale/scaler.hpp"

namespace narrow {

// What the scaler remembers.
struct ApexState {
  double scale = 65536;
  std::int64_t unskipped = 0;
  ScaleEvent event = ScaleEvent::none;
  friend bool operator==(const ApexState&, const ApexState&) = default;
};

// Its parameters, with the defaults of the framework.
struct ApexScaler {
  using State = ApexState;
  static constexpr ScalerKind kind = ScalerKind::loss_scaler;
  static constexpr std::string_view name = "apex", what = "capped at 2^24; a floor only where one is given";
  static constexpr std::string_view source = "apex apex/amp/scaler.py at 03b0eeb (historic)";
  static constexpr bool skips_on_inf = true;

  double init = 65536;
  double min = 0;  // 0: none
  double max = 16777216;
  double factor = 2.0;
  std::int64_t growth_interval = 2000;

  static constexpr std::array<Parameter<ApexScaler>, 5> parameters() {
    return {{{"init", &ApexScaler::init, ParameterKind::scale, "init_scale"},
             {"min", &ApexScaler::min, ParameterKind::limit, "min_loss_scale"},
             {"max", &ApexScaler::max, ParameterKind::scale, "max_loss_scale"},
             {"growth", &ApexScaler::factor, ParameterKind::growth, "scale_factor, both ways"},
             {"growth-interval", &ApexScaler::growth_interval, ParameterKind::count, "scale_window"}}};
  }
};
// What scaler.hpp asks of every scaler.
inline void check(const ApexScaler& p) {
  if (p.min > p.max)
    throw Error("apex: min " + detail::scale_text(p.min) + " is above max " + detail::scale_text(p.max));
}
inline ApexState initial(const ApexScaler& p) { return {std::min(p.max, p.init)}; }

// One step.
inline ApexState next(const ApexScaler& p, ApexState s, const Observation& seen) {
  const double before = s.scale;
  s.event = ScaleEvent::none;
  if (seen.found_inf) {
    s.scale = p.min > 0 ? std::max(p.min, s.scale / p.factor) : s.scale / p.factor;
    s.unskipped = 0;
    const ScaleEvent fell = s.scale == before && s.scale == p.min ? ScaleEvent::at_minimum : ScaleEvent::backed_off;
    s.event = detail::moved(s.scale, fell);
    return s;
  }
  if (++s.unskipped < p.growth_interval) return s;
  s.unskipped = 0;
  s.scale = std::min(p.max, s.scale * p.factor);
  s.event = s.scale == before ? ScaleEvent::at_maximum : ScaleEvent::grew;
  return s;
}
// The scale now; and the state in words.
inline float scale(const ApexState& s) { return detail::to_float(s.scale); }
inline std::string to_text(const ApexState& s) {
  return "scale " + detail::scale_text(s.scale) + ", unskipped " + std::to_string(s.unskipped);
}

}  // namespace narrow
