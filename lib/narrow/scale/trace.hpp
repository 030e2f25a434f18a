// A scaler run over a log of gradients: the scale before every step, what was skipped, and what to say about it.
//
//   GradientLog log;
//   log.steps = {0, 1, 2};
//   log.amax = {0.5F, 2.0F, 0.25F};
//   const Trace trace = run_trace(*make_scaler("torch").scaler, OverflowModel(log));
//   const TraceSummary summary = summarise(trace);
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "narrow/scale/gradient_log.hpp"
#include "narrow/scale/scaler_table.hpp"

namespace narrow {

// One step of a trace.
struct TraceStep {
  float scale;  // before the step
  bool skipped;
  ScaleEvent event;                        // what the step did to the scale
  Certainty certainty = Certainty::exact;  // of `skipped`, which is false where it is unknown
};

// Shorter than the log when the framework ended the run, and when the log cannot tell what became of a step: all that
// follows depends on it.
struct Trace {
  std::vector<TraceStep> steps;
  std::uint64_t estimated = 0;  // steps whose found_inf the log does not decide
  std::uint64_t clipped = 0;    // tensor recipes: steps whose largest value did not fit once scaled

  // The last step is the first of which the log cannot tell.
  bool ends_unknown() const { return !steps.empty() && steps.back().certainty == Certainty::unknown; }
};

// A tensor recipe needs a log with the amax of every step; throws Error without.
Trace run_trace(const Scaler& fresh, const OverflowModel& log);

// A trace in a few numbers.
struct TraceSummary {
  std::uint64_t skipped = 0;
  float first = 0, last = 0, smallest = 0, largest = 0;
  std::vector<std::pair<float, std::uint64_t>> time_at_scale;  // steps at each scale, largest scale first
  std::optional<std::size_t>
      settled;  // from this step on the scale stays within a factor of two; not in the last tenth
  std::optional<std::size_t> collapsed;  // first step whose scale is 0, not finite, or has no finite reciprocal in FP32
  std::optional<std::size_t> stalled;    // first step of a row of at least stall_length skipped ones
  std::optional<std::size_t> ended;      // the step at which the framework raises
  std::size_t longest_skip = 0;
};

// No descent from a default initial scale takes so many steps in a row: 2^32 would be below 2^-17.
inline constexpr std::size_t stall_length = 50;

// The numbers of a trace.
TraceSummary summarise(const Trace& trace);

}  // namespace narrow
