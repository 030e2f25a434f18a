// torch.amp.GradScaler: the scale, its growth tracker, and what unscaling does to a gradient.
//
//   const TorchScaler scaler;
//   TorchState state = initial(scaler);
//   state = next(scaler, state, {.found_inf = true});  // the step is skipped
//   const float factor = scale(state);
#pragma once

#include <array>

#include "narrow/scale/scaler.hpp"

namespace narrow {

// What the scaler remembers.
struct TorchState {
  float scale = 65536;
  std::int32_t growth_tracker = 0;
  ScaleEvent event = ScaleEvent::none;
  friend bool operator==(const TorchState&, const TorchState&) = default;
};

// No floor: 165 halvings from 2^16 lead to 2^-149, one more to 0. No ceiling either, but growth to Inf is not kept.
struct TorchScaler {
  using State = TorchState;
  static constexpr ScalerKind kind = ScalerKind::loss_scaler;
  static constexpr std::string_view name = "torch", what = "torch.amp.GradScaler: no floor, no ceiling";
  static constexpr std::string_view source =
      "pytorch torch/amp/grad_scaler.py; aten/src/ATen/native/cuda/AmpKernels.cu";
  static constexpr bool skips_on_inf = true;

  double init = 65536;
  double growth = 2.0;
  double backoff = 0.5;
  std::int64_t growth_interval = 2000;
  bool keep_finite = true;

  static constexpr std::array<Parameter<TorchScaler>, 5> parameters() {
    return {{{"init", &TorchScaler::init, ParameterKind::scale, "init_scale"},
             {"growth", &TorchScaler::growth, ParameterKind::growth, "growth_factor"},
             {"backoff", &TorchScaler::backoff, ParameterKind::backoff, "backoff_factor"},
             {"growth-interval", &TorchScaler::growth_interval, ParameterKind::count,
              "good steps in a row that make it grow"},
             {"keep-finite", &TorchScaler::keep_finite, ParameterKind::flag,
              "growth to Inf is not kept (0: old CUDA kernel)"}}};
  }
};
// What scaler.hpp asks of every scaler.
inline void check(const TorchScaler&) {}
inline TorchState initial(const TorchScaler& p) { return {detail::to_float(p.init)}; }

// float * double is a double product, rounded once to float, as _amp_update_scale_ computes it.
inline TorchState next(const TorchScaler& p, TorchState s, const Observation& seen) {
  const auto before = static_cast<double>(s.scale);
  s.event = ScaleEvent::none;
  if (seen.found_inf) {
    s.scale = detail::to_float(before * p.backoff);
    s.growth_tracker = 0;
    s.event = detail::moved(static_cast<double>(s.scale), ScaleEvent::backed_off);
    return s;
  }
  if (++s.growth_tracker < p.growth_interval) return s;
  s.growth_tracker = 0;
  const float grown = detail::to_float(before * p.growth);
  if (p.keep_finite && !std::isfinite(grown)) return s.event = ScaleEvent::at_maximum, s;
  s.scale = grown;
  s.event = detail::moved(static_cast<double>(s.scale), ScaleEvent::grew);
  return s;
}
// The scale now; and the state in words.
inline float scale(const TorchState& s) { return s.scale; }
inline std::string to_text(const TorchState& s) {
  return "scale " + detail::scale_text(static_cast<double>(s.scale)) + ", growth_tracker " +
         std::to_string(s.growth_tracker);
}

// What gradients are multiplied by. At and below 2^-128 this is Inf.
inline float inverse_scale(float scale) { return detail::to_float(1 / static_cast<double>(scale)); }

// A gradient after unscaling.
struct Unscaled {
  float value;
  bool found_inf;
};

// One gradient. The test for finiteness comes before the multiplication, so with an infinite inverse a zero gradient
// becomes 0 * Inf = NaN while found_inf stays false: the optimizer then steps on NaN. Values are unscaled even when
// found_inf is set.
inline Unscaled unscale(float gradient, float inverse) {
  return {inverse == 1 ? gradient : gradient * inverse, !std::isfinite(gradient)};
}

}  // namespace narrow
