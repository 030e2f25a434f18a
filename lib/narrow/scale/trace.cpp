#include "narrow/scale/trace.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "narrow/base/error.hpp"
#include "narrow/base/float_environment.hpp"
#include "narrow/scale/torch_scaler.hpp"

namespace narrow {

Trace run_trace(const Scaler& fresh, const OverflowModel& log) {
  const std::vector<float>& amax = log.log().amax;
  const bool is_recipe = fresh.limit() > 0;
  if (is_recipe && amax.empty()) throw Error("a tensor recipe needs a log with amax; this one has none");
  const DefaultFloats guard;
  const std::unique_ptr<Scaler> scaler = fresh.clone();
  const bool skips = scaler->skips_on_inf();
  // amax * (limit / amax) may exceed the limit by its two roundings; what is clipped exceeds it by more.
  const double clips_above = static_cast<double>(fresh.limit()) * (1 + 0x1p-20);
  Trace trace;
  trace.steps.reserve(log.steps());
  for (std::size_t i = 0; i < log.steps(); ++i) {
    Observation seen;
    if (is_recipe && amax[i] == GradientLog::no_amax)
      throw Error("a tensor recipe needs the amax of every step; step " + std::to_string(log.log().steps[i]) +
                  " has none");
    if (is_recipe) seen.amax = amax[i];
    if (scaler->is_immediate()) {
      scaler->observe(seen);
      trace.steps.push_back({scaler->scale(), false, scaler->event()});
    } else {
      const float scale = scaler->scale();
      OverflowModel::Answer answer{false, Certainty::exact};
      if (!is_recipe && skips) answer = log.at(i, scale);  // who never looks for Inf needs no answer
      seen.found_inf = answer.found_inf;
      trace.estimated += answer.certainty == Certainty::estimated ? 1 : 0;
      if (answer.certainty == Certainty::unknown) {
        trace.steps.push_back({scale, false, ScaleEvent::none, answer.certainty});
        break;
      }
      scaler->observe(seen);
      trace.steps.push_back({scale, seen.found_inf, scaler->event(), answer.certainty});
    }
    if (is_recipe && static_cast<double>(amax[i]) * static_cast<double>(trace.steps.back().scale) > clips_above)
      ++trace.clipped;
    if (scaler->event() == ScaleEvent::ended) break;
  }
  return trace;
}

namespace {

bool has_collapsed(float scale) { return !std::isfinite(scale) || std::isinf(inverse_scale(scale)); }

// The first step from which on largest / smallest stays at most 2, unless that is the last tenth of the run only.
std::optional<std::size_t> find_settled(const std::vector<TraceStep>& steps) {
  float low = steps.back().scale, high = low;
  std::size_t settled = steps.size() - 1;
  for (std::size_t i = steps.size(); i-- > 0; settled = i) {
    low = std::min(low, steps[i].scale), high = std::max(high, steps[i].scale);
    if (!(high <= 2 * low) || !std::isfinite(steps[i].scale)) break;
  }
  const bool too_late = settled > 0 && settled > steps.size() - steps.size() / 10 - 1;
  return too_late ? std::nullopt : std::optional(settled);
}

}  // namespace

TraceSummary summarise(const Trace& trace) {
  TraceSummary s;
  const std::vector<TraceStep>& steps = trace.steps;
  if (steps.empty()) return s;
  s.first = s.smallest = s.largest = steps.front().scale;
  s.last = steps.back().scale;
  std::map<float, std::uint64_t> time;
  std::uint64_t not_a_number = 0;
  std::size_t skip_run = 0, since = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const TraceStep& step = steps[i];
    if (i > 0 && step.scale != steps[i - 1].scale) {
      if (!std::isnan(steps[i - 1].scale)) time[steps[i - 1].scale] += i - since;
      since = i;
    }
    if (std::isnan(step.scale)) ++not_a_number;
    s.smallest = std::fmin(s.smallest, step.scale), s.largest = std::fmax(s.largest, step.scale);
    if (has_collapsed(step.scale) && !s.collapsed) s.collapsed = i;
    if (step.event == ScaleEvent::ended) s.ended = i;
    skip_run = step.skipped ? skip_run + 1 : 0;
    s.skipped += step.skipped ? 1 : 0;
    s.longest_skip = std::max(s.longest_skip, skip_run);
    if (skip_run == stall_length && !s.stalled) s.stalled = i + 1 - stall_length;
  }
  if (!std::isnan(s.last)) time[s.last] += steps.size() - since;
  s.time_at_scale.assign(time.rbegin(), time.rend());
  if (not_a_number > 0) s.time_at_scale.emplace_back(std::nanf(""), not_a_number);
  s.settled = find_settled(steps);
  return s;
}

}  // namespace narrow
