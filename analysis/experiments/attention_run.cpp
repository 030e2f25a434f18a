#include "analysis/experiments/attention_run.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/framework/shares.hpp"
#include "analysis/recordings/gradients.hpp"
#include "analysis/recordings/recorded_runs.hpp"
#include "narrow/format/find_format.hpp"

namespace analysis::of_attention_overflow {
namespace {

using namespace narrow;

struct Score {
  double largest = 0;  // of the finite ones
  std::uint64_t not_finite = 0;
};

double bf16_step(double score) { return std::ldexp(1.0, std::ilogb(score) - "bf16"_fmt.mantissa_bits); }

// Half of BF16's step at a score is its largest error, and softmax makes a factor of it.
double bf16_factor(double score) { return std::exp(bf16_step(score) / 2); }

std::string room_text(double score, bool is_bounded) {
  if (score >= fp16_overflows_from) return is_bounded ? "it may be beyond FP16" : "beyond FP16";
  return significant_text(fp16_overflows_from / score, 2) + " times below FP16's limit";
}

}  // namespace

Outcome attention_of_run(const std::string& folder) {
  const WatchedRun run(folder);
  std::map<std::int64_t, std::map<std::string, Score>> steps;
  bool is_bounded = false;
  run.for_each_tensor([&](const WatchedTensor& t) {
    if (t.role != "score") return;
    Score& s = steps[t.step][layer_of(t.name)];
    s.largest = std::max(s.largest, t.amax), s.not_finite += t.count - t.finite();
    is_bounded = is_bounded || !t.has_extremes;
  });
  Outcome out;
  const std::string name = file_text(folder);
  out.data = name;
  Table t{"by_layer",
          "The largest attention score of each layer at each watched step",
          {integer_column("step"), text_column("layer"), real_column("largest score", "", 4),
           fixed_column("headroom in FP16", "bits", 1), real_column("BF16's step there", "", 3),
           real_column("a probability is off by up to a factor of", "", 3), integer_column("Inf or NaN")},
          {},
          "as softmax takes them, before the mask; of the finite ones; off by: half a step of BF16 as a factor, for "
          "scores that are held in it",
          {}};
  std::map<std::string, std::map<std::int64_t, double>> lines;
  double most = 0, first = 0;
  std::string where;
  std::int64_t when = 0, broke_at = -1;
  for (const auto& [step, layers] : steps)
    for (const auto& [layer, s] : layers) {
      const bool has = s.largest > 0;
      t.add({step, layer, has ? Cell{s.largest} : Cell{},
             has ? Cell{std::log2(fp16_overflows_from / s.largest)} : Cell{}, has ? Cell{bf16_step(s.largest)} : Cell{},
             has ? Cell{bf16_factor(s.largest)} : Cell{}, static_cast<std::int64_t>(s.not_finite)});
      if (s.not_finite > 0 && broke_at < 0) broke_at = step;
      if (step == steps.begin()->first) first = std::max(first, s.largest);
      if (has) lines[layer][step] = s.largest;
      if (s.largest > most) most = s.largest, where = layer, when = step;
    }
  const std::string broke =
      broke_at < 0 ? "" : "; there are Inf or NaN among them from step " + std::to_string(broke_at) + " on";
  out.tables = {std::move(t)};
  if (most == 0) {
    out.finding =
        name + (steps.empty() ? ": no attention scores were watched" : ": no attention score is finite and not zero") +
        broke + ".";
    return out;
  }
  std::vector<std::pair<double, std::string>> order;  // the layers with the largest scores
  for (const auto& [layer, of] : lines) {
    double largest = 0;
    for (const auto& [step, score] : of) largest = std::max(largest, score);
    order.emplace_back(largest, layer);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  constexpr std::size_t shown = 8;
  Panel p;
  p.x.label = "training step";
  p.y = {"largest attention score", "", AxisScale::exponent_of_two, {}, {}, {}, {}};
  for (std::size_t i = 0; i < std::min(shown, order.size()); ++i) {
    Series line{order[i].second, Draw::line_points};
    for (const auto& [step, score] : lines[order[i].second])
      line.x.push_back(static_cast<double>(step)), line.y.push_back(std::log2(score));
    p.series.push_back(std::move(line));
  }
  p.marks = {{Along::y, 16.0, "FP16 ends", PlotColour::grey}};
  const std::string bound = is_bounded ? "below " : "", score = bound + significant_text(most, 3);
  out.finding = "The largest attention score of " + name + " is " + score + " (" + where + ", step " +
                std::to_string(when) + "; " + bound + significant_text(first, 3) + " at step " +
                std::to_string(steps.begin()->first) + "), " + room_text(most, is_bounded) + "; BF16 has steps of " +
                significant_text(bf16_step(most), 3) + " there, so that a probability may be off by a factor of " +
                significant_text(bf16_factor(most), 3) + broke + ".";
  out.plots = {
      {"scores",
       "Scores of " + score + " in " + where + " at step " + std::to_string(when) + ": " + room_text(most, is_bounded),
       name + (order.size() > shown
                   ? "; the " + std::to_string(shown) + " layers with the largest of " + std::to_string(order.size())
                   : ""),
       {p},
       1,
       0,
       ""}};
  out.notes.push_back(
      "Where 1/sqrt(d) follows the product of queries and keys, the product itself is sqrt(d) times larger.");
  if (is_bounded) out.notes.push_back(bounded_note);
  return out;
}

}  // namespace analysis::of_attention_overflow
