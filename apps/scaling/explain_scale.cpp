#include "scaling/explain_scale.hpp"

#include <cmath>

#include "cli/explanation.hpp"
#include "cli/number_text.hpp"
#include "cli/terminal.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/scale/torch_scaler.hpp"

namespace app {
namespace {

using narrow::ScaleEvent;
using narrow::TraceStep;

constexpr std::size_t most_segments = 24;

// The first magnitude that FP16 rounds to Inf: the middle between its largest value and the step after it.
double overflow_from() {
  constexpr narrow::Format fp16 = narrow::operator""_fmt("fp16", 4);
  return narrow::largest(fp16) + std::ldexp(1.0, fp16.max_exponent() - fp16.mantissa_bits - 1);
}

std::string name_of_scale(float scale) {
  if (std::isnan(scale)) return "NaN";
  if (scale == 0 || std::isinf(scale)) return scale == 0 ? "0" : "Inf";
  return scale_text(static_cast<double>(scale));
}

std::string count_text(std::size_t n, const char* one, const char* many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

// Steps that tell one thing: overflows in a row, or good steps up to one that lets the scale grow.
struct Segment {
  std::size_t first = 0, last = 0;
  bool skipped = false;
};

bool is_growth(ScaleEvent event) { return event == ScaleEvent::grew || event == ScaleEvent::at_maximum; }

std::vector<Segment> segments_of(const std::vector<TraceStep>& steps) {
  std::vector<Segment> all;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool ended = !all.empty() && is_growth(steps[all.back().last].event);
    if (all.empty() || ended || all.back().skipped != steps[i].skipped) all.push_back({i, i, steps[i].skipped});
    else all.back().last = i;
  }
  return all;
}

std::string event_sentence(ScaleEvent event) {
  switch (event) {
    case ScaleEvent::none: break;
    case ScaleEvent::grew: return "the rule counts enough good steps and lets the scale grow";
    case ScaleEvent::backed_off: return "the rule reduces the scale";
    case ScaleEvent::held_back: return "hysteresis swallows the overflow: the scale stays";
    case ScaleEvent::at_minimum: return "the rule lets the scale fall no further";
    case ScaleEvent::at_maximum: return "growth was due, but the scale is as large as the rule lets it be";
    case ScaleEvent::lost: return "in FP32 the scale is now 0, Inf or NaN: this run is lost";
    case ScaleEvent::ended: return "the framework raises an error: the run is over";
  }
  return "";
}

class Story {
 public:
  Story(const narrow::NamedScaler& policy, const narrow::Trace& trace, const narrow::OverflowModel& log)
      : trace_(trace), log_(log), scaler_(policy.scaler->clone()) {
    e_.say("rule", std::string(policy.row->what) + " (" + std::string(policy.row->source) + ")");
    e_.say("start", scaler_->state_text());
  }

  std::string text(bool colour) {
    std::vector<TraceStep> known = trace_.steps;
    if (trace_.ends_unknown()) known.pop_back();
    const std::vector<Segment> all = segments_of(known);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i < most_segments) tell(all[i]);
      else follow(all[i]);
    }
    if (trace_.ends_unknown())
      e_.say("from step " + std::to_string(log_.log().steps[trace_.steps.size() - 1]) + " on",
             "unknown: the scale is " + name_of_scale(trace_.steps.back().scale) +
                 ", and no step of the log tells whether gradients overflow at " + log_.unknown_region() +
                 ". What the rule does next depends on it.");
    if (all.size() > most_segments)
      e_.say("...",
             std::to_string(all.size() - most_segments) + " more changes of the same kind; -o FILE.csv has every step");
    conclude();
    return e_.text(colour);
  }

 private:
  std::string label(const Segment& s) const {
    const std::string first = std::to_string(log_.log().steps[s.first]),
                      last = std::to_string(log_.log().steps[s.last]);
    return s.first == s.last ? "step " + first : "steps " + first + "-" + last;
  }

  // The scaler goes the same way again, so that its counters can be shown.
  void follow(const Segment& s) {
    for (std::size_t i = s.first; i <= s.last; ++i) scaler_->observe({trace_.steps[i].skipped, 0});
  }

  std::string cause(std::size_t step) const {
    const narrow::GradientLog& log = log_.log();
    const TraceStep& here = trace_.steps[step];
    const double a = log.amax.empty() ? 0 : static_cast<double>(log.amax[step]), s = static_cast<double>(here.scale);
    if (!std::isfinite(a)) return ": a gradient is not finite before any scaling, so no scale can help";
    if (!(a * s >= overflow_from())) {
      if (here.certainty == narrow::Certainty::estimated) return " (estimated from the nearest step that decides)";
      return here.scale == log.scale[step] ? " (recorded)"
                                           : " (as recorded at " + name_of_scale(log.scale[step]) + " already)";
    }
    return (here.certainty == narrow::Certainty::estimated ? " (estimated)" : std::string()) +
           ": the largest gradient " + digits_text(a, 3) + " * " + name_of_scale(trace_.steps[step].scale) + " = " +
           digits_text(a * s, 6) + ", and FP16 gives Inf from " + digits_text(overflow_from(), 5) + " on";
  }

  void tell(const Segment& s) {
    const TraceStep &first = trace_.steps[s.first], &last = trace_.steps[s.last];
    follow(s);
    const std::string from = name_of_scale(first.scale), to = name_of_scale(scaler_->scale());
    const std::size_t count = s.last - s.first + 1;
    std::string text;
    if (s.skipped) {
      text = count == 1 ? "Inf or NaN among the gradients at scale " + from + cause(s.first) + ". The step is skipped; "
                        : count_text(count, "overflow", "overflows") + " in a row, the first" + cause(s.first) +
                              ". Each of these steps is skipped; at the last one ";
      text += event_sentence(last.event);
      if (from != to) text += ": " + from + " becomes " + to;
    } else {
      text = count_text(count, "good step", "good steps") + " at scale " + from;
      const std::string event = event_sentence(last.event);
      if (!event.empty()) text += "; then " + event + (from == to ? "" : ": " + from + " becomes " + to);
    }
    e_.say(label(s), text + ". Now: " + scaler_->state_text() + ".");
  }

  void conclude() {
    const narrow::TraceSummary s = narrow::summarise(trace_);
    const std::size_t known = trace_.steps.size() - (trace_.ends_unknown() ? 1 : 0);
    std::string all = std::to_string(s.skipped) + " of " + std::to_string(known) +
                      (trace_.ends_unknown() ? " known steps skipped" : " steps skipped");
    if (trace_.estimated != 0) all += ", an estimate for " + count_text(trace_.estimated, "step", "steps") + " of them";
    if (trace_.ends_unknown()) return e_.say("in all", all);
    e_.say("in all", all + "; " +
                         (s.settled ? "from step " + std::to_string(log_.log().steps[*s.settled]) +
                                          " on the scale stays within a factor of two of " + name_of_scale(s.last)
                                    : "the scale does not settle"));
    if (s.collapsed)
      e_.say("collapse", "at step " + std::to_string(log_.log().steps[*s.collapsed]) + " the scale is " +
                             name_of_scale(trace_.steps[*s.collapsed].scale) + ": " +
                             collapse_sentence(trace_.steps[*s.collapsed].scale));
    if (s.stalled)
      e_.say("stall", "from step " + std::to_string(log_.log().steps[*s.stalled]) + " on, " +
                          std::to_string(s.longest_skip) +
                          " steps in a row are skipped: the optimizer stands still while the loop goes on");
    fit();
  }

  static std::string collapse_sentence(float scale) {
    const float inverse = narrow::inverse_scale(scale);
    return "gradients are unscaled by 1/scale = " + name_of_scale(inverse) +
           (std::isinf(inverse) ? ", and 0 * Inf is NaN, which no test for Inf has seen" : "");
  }

  // Which scale the gradients of the end of the run can bear.
  void fit() {
    const std::vector<float>& amax = log_.log().amax;
    float top = 0;
    for (std::size_t i = trace_.steps.size() - trace_.steps.size() / 10; i < trace_.steps.size() && i < amax.size();
         ++i)
      if (std::isfinite(amax[i])) top = std::max(top, amax[i]);
    if (!(top > 0) || overflow_from() / static_cast<double>(top) >= 0x1p128) return;  // any scale will do
    int power = std::ilogb(overflow_from() / static_cast<double>(top));
    if (std::ldexp(static_cast<double>(top), power) >= overflow_from()) --power;
    e_.say("room", "in the last tenth of the run the largest gradient is " + digits_text(static_cast<double>(top), 3) +
                       ": the largest power of two that it can bear is 2^" + std::to_string(power) + " (" +
                       digits_text(std::ldexp(static_cast<double>(top), power), 6) + " < " +
                       digits_text(overflow_from(), 5) + "); a larger scale would skip that step");
  }

  const narrow::Trace& trace_;
  const narrow::OverflowModel& log_;
  std::unique_ptr<narrow::Scaler> scaler_;
  Explanation e_;
};

// A recipe computes its scale from amax: a few steps show the rule.
std::string recipe_story(const narrow::NamedScaler& policy, const narrow::Trace& trace,
                         const narrow::OverflowModel& log, bool colour) {
  constexpr std::size_t shown = 6;
  Explanation e;
  e.say("rule", std::string(policy.row->what) + " (" + std::string(policy.row->source) + ")");
  const auto limit = static_cast<double>(policy.scaler->limit());
  for (std::size_t i = 0; i < std::min(shown, trace.steps.size()); ++i) {
    const auto amax = static_cast<double>(log.log().amax[i]), scale = static_cast<double>(trace.steps[i].scale);
    const char* fate = std::isnan(amax * scale)               ? ", which no limit holds: the format's largest is "
                       : amax * scale > limit * (1 + 0x1p-20) ? ", more than the format's largest, so it is clipped: "
                                                              : ", within the format's largest ";
    e.say("step " + std::to_string(log.log().steps[i]),
          "amax " + digits_text(amax, 4) + ", scale " + digits_text(scale, 6) + ": the largest scaled value is " +
              digits_text(amax * scale, 6) + fate + digits_text(limit, 6));
  }
  std::size_t not_numbers = 0;
  for (std::size_t i = 0; i < trace.steps.size(); ++i)
    not_numbers += std::isnan(log.log().amax[i] * trace.steps[i].scale) ? 1 : 0;
  e.say("in all", std::to_string(trace.clipped) + " of " + count_text(trace.steps.size(), "step", "steps") +
                      " clip their largest value" +
                      (not_numbers == 0 ? "" : ", in " + std::to_string(not_numbers) + " it is NaN") +
                      "; the scale of a step is made from " +
                      (policy.scaler->is_immediate() ? "the step itself" : "earlier steps"));
  return e.text(colour);
}

}  // namespace

std::string explain_scaler(const narrow::NamedScaler& policy, const narrow::Trace& trace,
                           const narrow::OverflowModel& log, bool colour) {
  const bool recipe = policy.scaler->limit() > 0;
  return paint(policy.name, Colour::bold, colour) + "\n" +
         (recipe ? recipe_story(policy, trace, log, colour) : Story(policy, trace, log).text(colour));
}

}  // namespace app
