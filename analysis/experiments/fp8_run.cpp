#include "analysis/experiments/fp8_run.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "analysis/framework/shares.hpp"
#include "analysis/recordings/gradients.hpp"
#include "analysis/recordings/recorded_runs.hpp"
#include "narrow/format/find_format.hpp"

namespace analysis::of_fp8_scaling {
namespace {

using namespace narrow;
using enum PlotColour;

// Operands of products, as recipes cast them.
struct Kind {
  const char *role, *name;
  Format format;
};
constexpr Kind kinds[] = {{"parameter", "weights", "e4m3"_fmt},
                          {"activation", "activations", "e4m3"_fmt},
                          {"activation_gradient", "gradients of activations", "e5m2"_fmt}};
constexpr const char* ways[] = {"no scale", "current", "delayed"};

struct Lost {
  double values = 0;
  std::array<double, 3> zero = {}, beyond = {};  // by way

  void add(const ExponentHistogram& h, const Format& f, std::size_t way, int scale_log2) {
    const FormatShares s = shares_of(h, f, scale_log2);
    zero[way] += s.zero * static_cast<double>(nonzero_count(h));
    beyond[way] += s.overflow * static_cast<double>(nonzero_count(h));
  }
  double share(std::size_t way) const { return (zero[way] + beyond[way]) / values; }
};

// A power of two that moves this binade below the format's last: sure to fit.
int scale_for(int top, const Format& f) { return std::clamp(f.max_exponent() - 1 - top, -126, 126); }

}  // namespace

Outcome fp8_of_run(const std::string& folder) {
  const WatchedRun run(folder);
  std::map<std::int64_t, std::array<Lost, std::size(kinds)>> steps;
  std::map<std::string, int> before;  // the highest binade of a tensor at the steps before
  run.for_each_tensor([&](const WatchedTensor& t) {
    const auto kind = std::find_if(std::begin(kinds), std::end(kinds), [&](const Kind& k) { return t.role == k.role; });
    const ExponentHistogram h = t.histogram();
    if (kind == std::end(kinds) || nonzero_count(h) == h.subnormal.total()) return;
    const int top = std::ilogb(t.amax);
    const auto found = before.find(t.series());
    Lost& lost = steps[t.step][static_cast<std::size_t>(kind - kinds)];
    lost.values += static_cast<double>(nonzero_count(h));
    lost.add(h, kind->format, 0, 0);
    lost.add(h, kind->format, 1, scale_for(top, kind->format));
    lost.add(h, kind->format, 2, found == before.end() ? 0 : scale_for(found->second, kind->format));
    int& highest = before.emplace(t.series(), top).first->second;
    highest = std::max(highest, top);
  });
  Outcome out;
  const std::string name = file_text(folder);
  out.data = name;
  Table t{"by_step",
          "What FP8 is sure to lose to zero and overflow, by kind of tensor and of scale",
          {integer_column("step"), text_column("kind"), text_column("scale"), integer_column("values"),
           real_column("zero", "%", 3), real_column("beyond the range", "%", 3)},
          {},
          "E4M3 for weights and activations, E5M2 for gradients; current: a power of two of each tensor's own that "
          "moves its largest binade below the last of the format; delayed: the same for the largest at all watched "
          "steps before, at the first 1; gradients are as they were in memory, times a loss scale where there was one",
          {}};
  Panel p;
  p.y = {"zero or overflow", "%", AxisScale::linear, 0.0, 100.0, {}, {}};
  Series bars[3] = {{ways[0], Draw::bars, {}, {}, {}, {}, {}, vermilion},
                    {ways[1], Draw::bars, {}, {}, {}, {}, {}, green},
                    {ways[2], Draw::bars, {}, {}, {}, {}, {}, purple}};
  const Lost* worst = nullptr;
  std::size_t worst_kind = 0;
  for (const auto& [step, of] : steps)
    for (std::size_t k = 0; k < std::size(kinds); ++k) {
      if (of[k].values == 0) continue;
      for (std::size_t w = 0; w < std::size(ways); ++w)
        t.add({step, std::string(kinds[k].name), std::string(ways[w]), static_cast<std::int64_t>(of[k].values),
               100 * of[k].zero[w] / of[k].values, 100 * of[k].beyond[w] / of[k].values});
      if (step != steps.rbegin()->first) continue;
      for (std::size_t w = 0; w < std::size(ways); ++w)
        bars[w].x.push_back(static_cast<double>(p.x.categories.size())), bars[w].y.push_back(100 * of[k].share(w));
      p.x.categories.emplace_back(kinds[k].name);
      if (worst == nullptr || of[k].share(0) > worst->share(0)) worst = &of[k], worst_kind = k;
    }
  out.tables = {std::move(t)};
  out.notes.push_back(binades_note);
  if (worst == nullptr) {
    out.finding = name + ": no weight, activation or gradient of an activation is finite and not zero.";
    return out;
  }
  const std::string at = " at step " + std::to_string(steps.rbegin()->first);
  std::int64_t late = 0;
  double most_late = 0;
  std::size_t late_kind = 0;
  for (const auto& [step, of] : steps)
    for (std::size_t k = 0; k < std::size(kinds) && step != steps.begin()->first; ++k)
      if (of[k].values > 0 && of[k].share(2) - of[k].share(1) > most_late)
        most_late = of[k].share(2) - of[k].share(1), late = step, late_kind = k;
  const std::string lost = "Without a scale FP8 loses " + percent_text(worst->share(0)) + " of the " +
                           kinds[worst_kind].name + " of " + name + at + ", with the tensor's own " +
                           percent_text(worst->share(1)) + ", with the largest of the watched steps before " +
                           percent_text(worst->share(2));
  out.finding =
      lost + (most_late == 0
                  ? "; scales of the steps before lose no more than a tensor's own at any watched step but the first."
                  : "; scales of the steps before lose most more than a tensor's own at step " + std::to_string(late) +
                        ", " + percent_text(most_late) + " of the " + kinds[late_kind].name + ".");
  p.series.assign(std::begin(bars), std::end(bars));
  out.plots = {{"by_kind", lost, name + at + "; E4M3 forward, E5M2 for gradients", {p}, 1, 0, ""}};
  out.notes.push_back(
      "Only what leaves the range is counted: scales of rows and blocks, and errors within the range, take the "
      "values.");
  return out;
}

}  // namespace analysis::of_fp8_scaling
