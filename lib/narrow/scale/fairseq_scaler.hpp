// fairseq's DynamicLossScaler: a tolerated share of overflows, and an error when the scale falls to its minimum.
//
//   const FairseqScaler scaler;
//   FairseqState state = initial(scaler);
//   state = next(scaler, state, {.found_inf = true});  // the step is skipped
//   const float factor = scale(state);
#pragma once

#include <algorithm>
#include <array>

#include "narrow/base/error.hpp"
#include "narrow/scale/scaler.hpp"

namespace narrow {

// What the scaler remembers.
struct FairseqState {
  double scale = 32768;
  std::int64_t iteration = 0;
  std::int64_t last_overflow = -1;
  std::int64_t last_rescale = -1;
  std::int64_t overflows_since_rescale = 0;
  ScaleEvent event = ScaleEvent::none;
  friend bool operator==(const FairseqState&, const FairseqState&) = default;
};

// Unlike DeepSpeed, the scale that reaches the minimum (not an overflow at it) ends the run, and the scale before the
// reduction is put back first.
struct FairseqScaler {
  using State = FairseqState;
  static constexpr ScalerKind kind = ScalerKind::loss_scaler;
  static constexpr std::string_view name = "fairseq", what = "an error when the scale falls to its minimum";
  static constexpr std::string_view source =
      "fairseq fairseq/optim/dynamic_loss_scaler.py; metaseq: init 4, growth-interval 256, min 2^-5 (PR #115)";
  static constexpr bool skips_on_inf = true;

  double init = 32768;
  double min = 1e-4;
  double threshold = 0;  // 0: none
  double factor = 2.0;
  double tolerance = 0;
  std::int64_t growth_interval = 2000;

  static constexpr std::array<Parameter<FairseqScaler>, 6> parameters() {
    return {
        {{"init", &FairseqScaler::init, ParameterKind::scale, "init_scale"},
         {"min", &FairseqScaler::min, ParameterKind::scale, "min_loss_scale: reaching it ends the run"},
         {"threshold", &FairseqScaler::threshold, ParameterKind::limit, "threshold_loss_scale: a floor"},
         {"growth", &FairseqScaler::factor, ParameterKind::growth, "scale_factor, both ways"},
         {"tolerance", &FairseqScaler::tolerance, ParameterKind::magnitude, "share of overflows without a reduction"},
         {"growth-interval", &FairseqScaler::growth_interval, ParameterKind::count, "scale_window"}}};
  }
};
// What scaler.hpp asks of every scaler.
inline void check(const FairseqScaler&) {}
inline FairseqState initial(const FairseqScaler& p) { return {p.init}; }

// One step.
inline FairseqState next(const FairseqScaler& p, FairseqState s, const Observation& seen) {
  if (s.event == ScaleEvent::ended) return s;
  s.event = ScaleEvent::none;
  if (!seen.found_inf) {
    if ((s.iteration - s.last_overflow) % p.growth_interval == 0) {
      s.scale *= p.factor;
      s.last_rescale = s.iteration;
      s.event = detail::moved(s.scale, ScaleEvent::grew);
    }
    ++s.iteration;
    return s;
  }
  const double before = s.scale;
  const auto since_rescale = static_cast<double>(s.iteration - s.last_rescale);
  s.last_overflow = s.iteration;
  ++s.overflows_since_rescale;
  if (static_cast<double>(s.overflows_since_rescale) / since_rescale >= p.tolerance) {
    s.scale = std::max(s.scale / p.factor, p.threshold);
    s.last_rescale = s.iteration;
    s.overflows_since_rescale = 0;
    s.event = detail::moved(s.scale, s.scale == before ? ScaleEvent::at_minimum : ScaleEvent::backed_off);
  } else {
    s.event = ScaleEvent::held_back;
  }
  if (s.scale <= p.min) {
    s.scale = before;
    s.event = ScaleEvent::ended;
    return s;
  }
  ++s.iteration;
  return s;
}
// The scale now; and the state in words.
inline float scale(const FairseqState& s) { return detail::to_float(s.scale); }
inline std::string to_text(const FairseqState& s) {
  return "scale " + detail::scale_text(s.scale) + ", iteration " + std::to_string(s.iteration) + ", last_overflow " +
         std::to_string(s.last_overflow) + ", last_rescale " + std::to_string(s.last_rescale) + ", overflows " +
         std::to_string(s.overflows_since_rescale) + (s.event == ScaleEvent::ended ? ", ended" : "");
}

}  // namespace narrow
