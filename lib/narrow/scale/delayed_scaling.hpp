// Transformer Engine's delayed scaling: the scale of a step comes from the amax history of the steps before it.
//
//   TeDelayedScaling scaler;
//   DelayedState state = initial(scaler);
//   state = next(scaler, state, {.amax = 3.5F});
#pragma once

#include <array>
#include <vector>

#include "narrow/scale/scaler.hpp"
#include "narrow/scale/tensor_scale.hpp"

namespace narrow {

// The last amaxes that count, a ring of at most history - 1: the row that TE zeroes for the next step is not kept.
struct DelayedState {
  float scale = 1;
  std::vector<float> history;
  std::size_t oldest = 0;  // where the ring, once full, is overwritten next
  float window_max = 0;    // largest of the ring, as fmaxf takes it: NaN never wins
  ScaleEvent event = ScaleEvent::none;
  friend bool operator==(const DelayedState&, const DelayedState&) = default;
};

// The recipe DelayedScaling of Transformer Engine.
struct TeDelayedScaling {
  using State = DelayedState;
  static constexpr ScalerKind kind = ScalerKind::tensor_recipe;
  static constexpr std::string_view name = "te-delayed", what = "FP8_MAX / largest amax of the last 1024 steps";
  static constexpr std::string_view source =
      "TransformerEngine 2.20 common/recipe/__init__.py DelayedScaling, common/recipe/delayed_scaling.cu kernel_bulk";
  static constexpr bool skips_on_inf = false;

  double fp8_max = 448;
  std::int64_t margin = 0;
  std::int64_t history = 1024;
  bool most_recent = false;

  static constexpr std::array<Parameter<TeDelayedScaling>, 4> parameters() {
    return {{{"fp8-max", &TeDelayedScaling::fp8_max, ParameterKind::scale, "448 forward (E4M3), 57344 backward (E5M2)"},
             {"margin", &TeDelayedScaling::margin, ParameterKind::magnitude, "fp8-max is divided by 2^margin"},
             {"history", &TeDelayedScaling::history, ParameterKind::count, "amax_history_len"},
             {"most-recent", &TeDelayedScaling::most_recent, ParameterKind::flag,
              "amax_compute_algo most_recent instead of max"}}};
  }
};
// What scaler.hpp asks of every scaler.
void check(const TeDelayedScaling& scaler);
inline float limit(const TeDelayedScaling& p) { return detail::to_float(p.fp8_max); }
inline DelayedState initial(const TeDelayedScaling&) { return {}; }

// The amax of the step that has just run, and the scale for the next one: (fp8_max * 2^-margin) / amax, one division.
// An amax of 0 (the module did not run) changes nothing, not even what "max" sees of the window. When the amax to use
// is Inf or NaN the old scale stays; so one Inf freezes "max" until it has left the window.
DelayedState next(const TeDelayedScaling& scaler, DelayedState state, const Observation& seen);

// The scale now; and the state in words.
inline float scale(const DelayedState& s) { return s.scale; }
std::string to_text(const DelayedState& s);

}  // namespace narrow
