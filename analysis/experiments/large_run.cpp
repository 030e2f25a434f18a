// Which recipe trains a model of real size, what breaks first, and which of its gradients does FP16 lose?
#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/framework/experiment.hpp"
#include "analysis/recordings/gradients.hpp"
#include "analysis/recordings/recorded_runs.hpp"
#include "narrow/format/find_format.hpp"

namespace analysis::of_large_run {
namespace {

using namespace narrow;
using enum PlotColour;

constexpr Format fp16 = "fp16"_fmt;
constexpr const char* usual_reference = "bf16-amp";  // every gradient in it has FP32's range
constexpr double overflows_from = 65520;             // half a quantum above 65504: the first value that rounds to Inf

// ---- The gradients of one run, without their loss scale, by step and layer

struct Pool {
  ExponentHistogram h;
  double amax = 0;

  void add(const ExponentHistogram& other, double largest) { h.merge(other), amax = std::max(amax, largest); }
};

struct GradientsByStep {
  std::map<std::int64_t, Pool> steps;
  std::map<std::int64_t, std::map<std::string, Pool>> layers;
  std::map<std::int64_t, std::map<std::string, Pool>> parts;
  std::vector<std::string> order;  // of layers, as the model has them
  bool in_fp16 = false, is_bounded = false;
  std::int64_t broke_at = -1;  // the first step from which on no gradient is finite and not zero

  void add(const WatchedTensor& t, const ExponentHistogram& h) {
    const std::string layer = layer_of(t.name), kind = t.role == "gradient" ? "" : " (activation)";
    const double amax = t.unscaled(t.amax);
    steps[t.step].add(h, amax), layers[t.step][layer].add(h, amax);
    parts[t.step][part_of(t.name) + kind].add(h, amax);
    if (std::find(order.begin(), order.end(), layer) == order.end()) order.push_back(layer);
    in_fp16 = in_fp16 || t.dtype == "fp16", is_bounded = is_bounded || !t.has_extremes;
  }
  // A run that broke ends with steps that have nothing to count.
  void drop_empty_end() {
    while (!steps.empty() && nonzero_count(last().h) == 0) broke_at = last_step(), steps.erase(broke_at);
  }
  const Pool& last() const { return steps.rbegin()->second; }
  std::int64_t last_step() const { return steps.rbegin()->first; }
};

// blocks.2 before blocks.10.
bool is_before(const std::string& a, const std::string& b) {
  const std::string head = a.substr(0, a.rfind('.') + 1);
  return !head.empty() && head == b.substr(0, b.rfind('.') + 1) && a.size() != b.size() ? a.size() < b.size() : a < b;
}

GradientsByStep gradients_of(const std::string& folder) {
  GradientsByStep g;
  const WatchedRun run(folder);
  run.for_each_tensor([&](const WatchedTensor& t) {
    if (t.is_gradient()) g.add(t, unscaled_histogram(run, t));
  });
  std::sort(g.order.begin(), g.order.end(), is_before);
  g.drop_empty_end();
  return g;
}

GradientsByStep made_gradients_by_step() {
  GradientsByStep g;
  for (const int step : {0, 50})
    for (const int layer : {0, 1}) {
      const WatchedTensor t = made_tensor(step, "blocks." + std::to_string(layer) + ".weight", -14 - layer - step / 10);
      g.add(t, t.histogram());
    }
  return g;
}

double zero_at(const ExponentHistogram& h, int scale_log2) { return shares_of(h, fp16, scale_log2).zero; }

// ---- All runs

std::string end_text(const RecordedRun& r) {
  if (const auto step = r.first_not_finite()) return "Inf or NaN from step " + std::to_string(*step) + " on";
  return std::isnan(r.final_loss()) ? "no loss was logged" : "ends at a loss of " + fixed_text(r.final_loss(), 2);
}

Cell cell_of(double x) { return std::isfinite(x) ? Cell{x} : Cell{}; }

Table runs_table(const std::vector<RecordedRun>& runs, const RecordedRun* reference) {
  Table t{"runs",
          "Runs of one model under different recipes",
          {text_column("run"), text_column("arithmetic"), integer_column("steps"), fixed_column("final loss", "", 3),
           fixed_column("above " + std::string(reference == nullptr ? "the reference" : reference->name), "", 3),
           fixed_column("held out", "", 3), integer_column("skipped steps"), integer_column("first Inf or NaN", "step"),
           integer_column("tokens a second"), fixed_column("peak memory", "GiB", 1)},
          {},
          "final loss: mean of the last 20 steps; above: against the same steps of that run; emulated: FP8 and FP4 "
          "rounded by narrow in place of a GPU's own products, so that its speed says nothing",
          {}};
  for (const RecordedRun& r : runs) {
    double above = std::nan("");
    if (reference != nullptr && reference->losses.size() >= r.losses.size()) {
      RecordedRun same = *reference;
      same.losses.resize(r.losses.size());
      above = r.final_loss() - same.final_loss();
    }
    const auto broke = r.first_not_finite();
    t.add({r.name, std::string(r.is_emulated ? "emulated" : "the GPU's"), static_cast<std::int64_t>(r.losses.size()),
           cell_of(r.final_loss()), cell_of(above), cell_of(r.held_out_loss), r.scaler ? Cell{r.skipped()} : Cell{},
           broke ? Cell{*broke} : Cell{},
           std::isfinite(r.tokens_per_second) ? Cell{static_cast<std::int64_t>(r.tokens_per_second)} : Cell{},
           cell_of(r.peak_gib)});
  }
  return t;
}

PlotColour colour_of(const RecordedRun& r) {
  for (const auto& [name, colour] : {std::pair{"fp32", ink},
                                     {"tf32", grey},
                                     {"bf16-amp", orange},
                                     {"fp16-amp", blue},
                                     {"fp16-amp-noscale", vermilion},
                                     {"fp8-current", green},
                                     {"nvfp4", purple},
                                     {"fp16-amp-2^4", sky},
                                     {"fp16-amp-2^30", yellow}})
    if (r.recipe == name) return colour;
  return automatic;
}

// Means of ten steps. Several seeds of a recipe are a band behind the first of them.
Plot losses_plot(const std::vector<RecordedRun>& runs, const std::string& about) {
  constexpr std::size_t window = 10, most = 9;
  const auto curve = [](const RecordedRun& r, Series& s) {
    for (std::size_t i = 0; i + window <= r.losses.size(); i += window) {
      double sum = 0;
      for (std::size_t k = i; k < i + window; ++k) sum += r.losses[k].loss;
      s.x.push_back(static_cast<double>(r.losses[i + window - 1].step)), s.y.push_back(sum / window);
    }
  };
  std::vector<const RecordedRun*> shown;
  for (const RecordedRun& r : runs)
    if (r.is_usual()) shown.push_back(&r);
  // The farthest from the best are what a picture shows; the others lie on one line.
  std::stable_sort(shown.begin(), shown.end(), [](const RecordedRun* a, const RecordedRun* b) {
    const bool known_a = colour_of(*a) != automatic, known_b = colour_of(*b) != automatic;
    return known_a != known_b ? known_a : a->final_loss() > b->final_loss();
  });
  if (shown.size() > most) shown.resize(most);
  Panel p;
  p.x = {"training step", "", AxisScale::linear, {}, {}, {}, {}};
  p.y = {"training loss, mean of 10 steps", "nats", AxisScale::linear, {}, {}, {}, {}};
  for (const RecordedRun* r : shown) {
    Series band{r->recipe + ", other seeds", Draw::band, {}, {}, {}, {}, {}, colour_of(*r)}, line{r->name, Draw::line};
    line.colour = colour_of(*r);
    curve(*r, line);
    for (const RecordedRun& other : runs) {
      if (other.recipe != r->recipe || other.seed == r->seed || other.has_other_rate || other.remedy != "none")
        continue;
      Series s;
      curve(other, s);
      if (band.x.empty()) band.x = s.x, band.low = band.high = line.y;
      for (std::size_t i = 0; i < std::min(band.x.size(), s.y.size()); ++i)
        band.low[i] = std::fmin(band.low[i], s.y[i]), band.high[i] = std::fmax(band.high[i], s.y[i]);
    }
    if (line.x.empty()) continue;
    if (!band.x.empty()) p.series.push_back(std::move(band));
    p.series.push_back(std::move(line));
  }
  const RecordedRun *worst = nullptr, *best = nullptr;
  for (const RecordedRun* r : shown) {
    if (std::isnan(r->final_loss()) || r->losses.size() < runs.front().losses.size()) continue;
    if (worst == nullptr || r->final_loss() > worst->final_loss()) worst = r;
    if (best == nullptr || r->final_loss() < best->final_loss()) best = r;
  }
  std::string title = "Losses of " + std::to_string(shown.size()) + (shown.size() == 1 ? " recipe" : " recipes");
  if (worst != nullptr && worst != best)
    title = best->name + " " + end_text(*best) + ", " + worst->name + " at " + fixed_text(worst->final_loss(), 2);
  Plot plot{"losses", title, about, {p}, 2, 0, ""};
  if (best == nullptr) return plot;
  // Those that end near the best, from the middle on: there they differ by less than a line is wide.
  Panel near = p;
  near.title = "from the middle on, those within 0.5 of the best";
  const double middle = static_cast<double>(best->losses[best->losses.size() / 2].step), top = best->final_loss() + 0.5;
  for (Series& s : near.series) {
    const bool ends_near = !s.y.empty() ? s.y.back() < top : !s.high.empty() && s.high.back() < top;
    const auto first = static_cast<std::ptrdiff_t>(std::lower_bound(s.x.begin(), s.x.end(), middle) - s.x.begin());
    for (std::vector<double>* v : {&s.x, &s.y, &s.low, &s.high})
      if (!ends_near) v->clear();
      else if (!v->empty()) v->erase(v->begin(), v->begin() + first);
  }
  std::erase_if(near.series, [](const Series& s) { return s.x.empty(); });
  if (near.series.size() > 1 && near.series.size() < p.series.size()) plot.panels.push_back(std::move(near));
  return plot;
}

// ---- What FP16 would lose of the reference's gradients

// About ten of the steps, the first and the last among them.
std::vector<std::int64_t> some_steps(const GradientsByStep& g) {
  constexpr std::size_t most = 10;
  std::vector<std::int64_t> all, some;
  for (const auto& [step, pool] : g.steps) all.push_back(step);
  const std::size_t n = std::min(most, all.size());
  for (std::size_t i = 0; i < n; ++i) some.push_back(all[n == 1 ? 0 : i * (all.size() - 1) / (n - 1)]);
  return some;
}

Table layers_table(const GradientsByStep& g) {
  Table t{"layers",
          "What FP16 makes of the gradients of each layer without a loss scale, step by step",
          {integer_column("step"), text_column("layer"), integer_column("values"), real_column("zero", "%", 3),
           real_column("subnormal", "%", 3), real_column("largest", "", 3)},
          {},
          "shares of the values that are finite and not zero; gradients of weights and of activations",
          {}};
  for (const auto& [step, layers] : g.layers)
    for (const std::string& layer : g.order)
      if (const auto found = layers.find(layer); found != layers.end() && nonzero_count(found->second.h) > 0) {
        const FormatShares s = shares_of(found->second.h, fp16);
        t.add({step, layer, static_cast<std::int64_t>(nonzero_count(found->second.h)), 100 * s.zero, 100 * s.subnormal,
               found->second.amax});
      }
  return t;
}

struct Worst {
  std::string name;
  double zero = -1;
};

Worst worst_layer(const GradientsByStep& g) {
  Worst worst;
  for (const auto& [layer, pool] : g.layers.at(g.last_step()))
    if (nonzero_count(pool.h) > 0)
      if (const double zero = zero_at(pool.h, 0); zero > worst.zero) worst = {layer, zero};
  return worst;
}

Plot map_plot(const GradientsByStep& g, const std::string& about) {
  Panel p;
  p.x.label = "training step", p.y.label = "layer";
  p.cells = {"zero in FP16 without a loss scale", "%", false, 2};
  Series cells{"", Draw::cells};
  const std::vector<std::int64_t> steps = some_steps(g);
  for (const std::int64_t step : steps) p.x.categories.push_back(std::to_string(step));
  for (std::size_t y = 0; y < g.order.size(); ++y) {
    p.y.categories.push_back(g.order[y]);
    for (std::size_t x = 0; x < steps.size(); ++x) {
      const auto& layers = g.layers.at(steps[x]);
      const auto found = layers.find(g.order[y]);
      cells.x.push_back(static_cast<double>(x)), cells.y.push_back(static_cast<double>(y));
      const bool has = found != layers.end() && nonzero_count(found->second.h) > 0;
      cells.value.push_back(has ? 100 * zero_at(found->second.h, 0) : std::nan(""));
    }
  }
  p.series = {cells};
  const Worst worst = worst_layer(g);
  return {"by_layer_and_step",
          "FP16 without a loss scale turns " + percent_text(worst.zero) + " of the gradients of " + worst.name +
              " into zero at step " + std::to_string(g.last_step()),
          about,
          {p},
          1,
          30.0 * static_cast<double>(g.order.size()) + 120,
          ""};
}

Plot parts_plot(const GradientsByStep& g, const std::string& about) {
  constexpr std::size_t most = 16;
  std::vector<std::pair<std::string, FormatShares>> rows;
  for (const auto& [part, pool] : g.parts.at(g.last_step()))
    if (nonzero_count(pool.h) > 0) rows.emplace_back(part, shares_of(pool.h, fp16));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.zero > b.second.zero; });
  const std::string title = rows.front().first + " loses most: " + percent_text(rows.front().second.zero) + " zero, " +
                            rows.back().first + " least: " + percent_text(rows.back().second.zero);
  if (rows.size() > most) rows.erase(rows.begin() + most / 2, rows.end() - most / 2);  // both ends
  Panel p;
  p.horizontal = true, p.bars = BarLayout::stacked;
  Series zero{"zero", Draw::bars, {}, {}, {}, {}, {}, vermilion},
      subnormal{"subnormal", Draw::bars, {}, {}, {}, {}, {}, orange};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    p.y.categories.push_back(rows[i].first);
    zero.x.push_back(static_cast<double>(i)), zero.y.push_back(100 * rows[i].second.zero);
    subnormal.x.push_back(static_cast<double>(i)), subnormal.y.push_back(100 * rows[i].second.subnormal);
  }
  p.x = {"share of the gradients at step " + std::to_string(g.last_step()), "%", AxisScale::linear, 0.0, 100.0, {}, {}};
  p.series = {zero, subnormal};
  return {"by_part", title, about, {p}, 1, 0, ""};
}

// ---- What would have happened at other loss scales

Table scales_table(const GradientsByStep& g) {
  Table t{"loss_scales",
          "FP16 at any loss scale, from the binades",
          {integer_column("step"), power_column("loss scale"), real_column("zero", "%", 3),
           real_column("subnormal", "%", 3), text_column("overflows")},
          {},
          "overflows: the largest gradient times the scale is 65520 or more, and the step would be skipped",
          {}};
  for (const std::int64_t step : some_steps(g)) {
    const Pool& pool = g.steps.at(step);
    if (nonzero_count(pool.h) == 0) continue;
    for (int k = 0; k <= 30; k += 2) {
      const FormatShares s = shares_of(pool.h, fp16, k);
      t.add({step, std::ldexp(1.0, k), 100 * s.zero, 100 * s.subnormal,
             std::string(std::ldexp(pool.amax, k) >= overflows_from ? "yes" : "no")});
    }
  }
  return t;
}

Plot scales_plot(const GradientsByStep& g, const std::string& about) {
  Panel p;
  p.x = {"loss scale", "", AxisScale::exponent_of_two, 0.0, 30.0, {}, {}};
  p.y = {"zero in FP16", "% of the gradients", AxisScale::linear, 0.0, {}, {}, {}};
  const std::vector<std::int64_t> steps = some_steps(g);
  const std::pair<std::size_t, PlotColour> chosen[] = {{0, sky}, {steps.size() / 2, blue}, {steps.size() - 1, ink}};
  for (const auto& [i, colour] : chosen) {
    const Pool& pool = g.steps.at(steps[i]);
    Series line{"step " + std::to_string(steps[i]), Draw::line, {}, {}, {}, {}, {}, colour};
    for (int k = 0; k <= 30; ++k) line.x.push_back(k), line.y.push_back(100 * zero_at(pool.h, k));
    if (p.series.empty() || p.series.back().name != line.name) p.series.push_back(std::move(line));
  }
  const int limit = largest_scale_log2(g.last().amax), at = std::clamp(limit, 0, 30);
  if (limit >= 0 && limit <= 30)
    p.marks = {
        {Along::x, static_cast<double>(limit), "above: step " + std::to_string(g.last_step()) + " overflows", grey}};
  return {"what_if",
          "At step " + std::to_string(g.last_step()) + " a loss scale of 2^" + std::to_string(at) + " leaves " +
              percent_text(zero_at(g.last().h, at)) + " zero, none " + percent_text(zero_at(g.last().h, 0)),
          about,
          {p},
          1,
          0,
          ""};
}

// ---- What the scalers did, and what was lost under them

struct Held {
  std::uint64_t zero = 0, count = 0;
  double predicted = 0;  // zeros

  double share() const { return static_cast<double>(zero) / static_cast<double>(count); }
};

// Activation gradients that a run held in FP16, beside what the reference's, at the same step and in a wider type,
// would have become at this run's scale.
std::map<std::int64_t, Held> held_in_fp16(
    const RecordedRun& r, const std::map<std::pair<std::int64_t, std::string>, ExponentHistogram>& wide) {
  std::map<std::int64_t, Held> by_step;
  const WatchedRun run(r.folder);
  run.for_each_tensor([&](const WatchedTensor& t) {
    if (t.role != "activation_gradient" || t.dtype != "fp16" || t.finite() != t.count) return;
    const auto found = wide.find({t.step, t.series()});
    const int k = std::ilogb(t.scale);
    if (found == wide.end() || std::ldexp(1.0, k) != t.scale || found->second.count() != t.count) return;
    Held& held = by_step[t.step];
    held.zero += t.zero.total(), held.count += t.count;
    const ExponentHistogram& h = found->second;
    held.predicted += static_cast<double>(h.zero.total()) + zero_at(h, k) * static_cast<double>(nonzero_count(h));
  });
  return by_step;
}

void scaler_parts(const std::vector<RecordedRun>& runs, const RecordedRun& reference, Outcome& out) {
  std::map<std::pair<std::int64_t, std::string>, ExponentHistogram> wide;
  const WatchedRun run(reference.folder);
  run.for_each_tensor([&](const WatchedTensor& t) {
    if (t.role == "activation_gradient" && t.dtype != "fp16" && t.scale == 1 && t.finite() == t.count)
      wide[{t.step, t.series()}] = t.histogram();
  });
  Table check{"check",
              "Zeros among the activation gradients that a run held in FP16, and what " + reference.name +
                  "'s binades predict at its loss scale",
              {text_column("run"), integer_column("step"), integer_column("values"),
               real_column("zeros recorded", "%", 3), real_column("zeros predicted", "%", 3)},
              {},
              "at step 0 both have the same weights; later each follows its own path",
              {}};
  Panel scales, lost, both;
  scales.title = "loss scale", lost.title = "zeros recorded in FP16", both.title = "predicted and recorded, step 0";
  scales.x.label = lost.x.label = "training step";
  scales.y = {"loss scale", "", AxisScale::exponent_of_two, {}, {}, {}, {}};
  lost.y = {"zero", "% of the activation gradients", AxisScale::linear, 0.0, {}, {}, {}};
  both.y = {"zero", "% of the activation gradients", AxisScale::linear, 0.0, {}, {}, {}};
  Series predicted{"predicted", Draw::bars, {}, {}, {}, {}, {}, grey},
      recorded{"recorded", Draw::bars, {}, {}, {}, {}, {}, vermilion};
  const RecordedRun* most_lost = nullptr;
  double most_share = 0, farthest = 0;
  for (const RecordedRun& r : runs) {
    if (!r.is_usual()) continue;
    const bool may_hold = r.recipe.find("fp16") != std::string::npos;
    const auto held = may_hold ? held_in_fp16(r, wide) : std::map<std::int64_t, Held>{};
    if (r.scaler && !r.scaler->log.scale.empty()) {
      Series s{r.name, Draw::steps, {}, {}, {}, {}, {}, colour_of(r)};
      const GradientLog& log = r.scaler->log;
      for (std::size_t i = 0; i < log.scale.size(); ++i)
        if (i == 0 || i + 1 == log.scale.size() || log.scale[i] != log.scale[i - 1])
          s.x.push_back(static_cast<double>(log.steps[i])), s.y.push_back(std::log2(static_cast<double>(log.scale[i])));
      scales.series.push_back(std::move(s));
    }
    if (held.empty()) continue;
    Series s{r.name, Draw::line_points, {}, {}, {}, {}, {}, colour_of(r)};
    for (const auto& [step, h] : held) {
      s.x.push_back(static_cast<double>(step)), s.y.push_back(100 * h.share());
      check.add({r.name, step, static_cast<std::int64_t>(h.count), 100 * h.share(),
                 100 * h.predicted / static_cast<double>(h.count)});
    }
    lost.series.push_back(std::move(s));
    if (const Held& last = held.rbegin()->second; most_lost == nullptr || last.share() > most_share)
      most_lost = &r, most_share = last.share();
    if (const auto first = held.find(0); first != held.end()) {
      const auto place = static_cast<double>(both.x.categories.size());
      const double told = first->second.predicted / static_cast<double>(first->second.count);
      both.x.categories.push_back(r.name);
      predicted.x.push_back(place), predicted.y.push_back(100 * told);
      recorded.x.push_back(place), recorded.y.push_back(100 * first->second.share());
      farthest = std::max(farthest, std::fabs(told - first->second.share()));
    }
  }
  if (!check.rows.empty()) out.tables.push_back(std::move(check));
  Plot scaler{"scales", "", "the loss scale of each run, and the zeros among its FP16 gradients", {}, 2, 0, ""};
  if (!scales.series.empty()) scaler.panels.push_back(std::move(scales));
  if (!lost.series.empty()) scaler.panels.push_back(std::move(lost));
  if (!scaler.panels.empty()) {
    scaler.title = most_lost == nullptr
                       ? "Loss scales of " + std::to_string(scaler.panels[0].series.size()) + " runs"
                       : most_lost->name + " has the most zeros at its last such step: " + percent_text(most_share) +
                             " of the activation gradients";
    out.plots.push_back(std::move(scaler));
  }
  if (both.x.categories.empty()) return;
  both.series = {predicted, recorded};
  out.plots.push_back({"predicted",
                       "Binades of " + reference.name + " predict the zeros of FP16 runs at step 0 to within " +
                           percent_text(farthest) + " of the gradients",
                       "activation gradients that autocast holds in FP16, on the GPU",
                       {both},
                       1,
                       0,
                       ""});
}

// ---- The sentence

std::string finding_of(const std::vector<RecordedRun>& runs, const RecordedRun* reference, const GradientsByStep& g) {
  std::string text;
  if (const RecordedRun* bare = find_run(runs, "fp16-amp-noscale"), *scaled = find_run(runs, "fp16-amp");
      bare != nullptr && scaled != nullptr)
    text =
        "FP16 autocast without a loss scale " + end_text(*bare) + ", with PyTorch's scaler from 2^16 it " +
        end_text(*scaled) +
        (reference != nullptr && reference != scaled ? " (" + reference->name + " " + end_text(*reference) + ")" : "") +
        "; ";
  const Pool& last = g.last();
  const std::size_t said = text.size();
  const double bare_zero = zero_at(last.h, 0);
  const Worst worst_one = worst_layer(g);
  const int limit = largest_scale_log2(last.amax);
  const std::string which =
      "of the gradients of step " + std::to_string(g.last_step()) + (g.in_fp16 ? " that FP16 had left" : "");
  text += "at loss scale 1 FP16 turns ";
  text += bare_zero == 0 ? "none " + which + " into zero"
                         : percent_text(bare_zero) + " " + which + " into zero, most in " + worst_one.name + " (" +
                               percent_text(worst_one.zero) + "), at 2^" + std::to_string(limit) +
                               ", the largest without overflow, " + percent_text(zero_at(last.h, limit));
  if (said == 0) text[0] = 'A';
  if (last.h.nan.total() + last.h.inf.total() > 0) text += "; NaN and Inf among them are left out";
  std::vector<std::string> broke;
  for (const RecordedRun& r : runs)
    if (const auto step = r.first_not_finite()) broke.push_back(r.name + " (step " + std::to_string(*step) + ")");
  if (!broke.empty()) text += "; the loss becomes Inf or NaN in " + list_of(broke);
  const RecordedRun* worst = nullptr;
  for (const RecordedRun& r : runs)
    if (r.is_usual() && r.recipe != "fp16-amp-noscale" && reference != nullptr && std::isfinite(r.final_loss()) &&
        r.losses.size() == reference->losses.size() && (worst == nullptr || r.final_loss() > worst->final_loss()))
      worst = &r;
  if (worst != nullptr && worst != reference)
    text += "; of the " + std::string(broke.empty() ? "other runs " : "others ") + worst->name + " ends highest, at " +
            fixed_text(worst->final_loss(), 2);
  return text + ".";
}

Outcome run(const Parameters& parameters, Progress& progress) {
  Outcome out;
  const std::string& folder = parameters.text("run");
  std::vector<RecordedRun> runs = recorded_runs();
  if (runs.empty() && folder.empty()) (void)find_data("gpt/runs/bf16-amp/run.json");  // says where it looked
  const RecordedRun* reference = find_run(runs, usual_reference);
  if (!folder.empty()) {
    const auto same = std::find_if(runs.begin(), runs.end(), [&](const RecordedRun& r) { return r.folder == folder; });
    if (same == runs.end()) runs = {recorded_run(folder)};
    reference = same == runs.end() ? &runs[0] : find_run(runs, file_text(folder));
  } else if (reference == nullptr && !runs.empty()) {
    reference = &runs[0];
  }
  progress.at(0.2);
  const GradientsByStep g = reference == nullptr ? made_gradients_by_step() : gradients_of(reference->folder);
  if (g.steps.empty())
    throw Error((reference == nullptr ? "the run" : reference->name) + ": no gradient is finite and not zero");
  progress.at(0.5);
  std::string what = "made gradients", about = what;
  if (reference == nullptr) {
    out.data = made_text;
    out.notes.push_back(no_recordings_note("these are two layers of made gradients"));
  } else {
    about = reference->name +
            (reference->parameters > 0 ? ", " + count_text(reference->parameters) + " parameters" : "") +
            (reference->tokens_per_step > 0 ? ", " + count_text(reference->tokens_per_step) + " tokens a step" : "");
    out.data = folder.empty() || runs.size() > 1
                   ? recorded_text("a GPT of " + count_text(reference->parameters) + " parameters, " +
                                   std::to_string(runs.size()) + " recipes; gradients of " + reference->name)
                   : Source(file_text(folder));
    out.tables.push_back(runs_table(runs, reference));
    const auto has_losses =
        std::any_of(runs.begin(), runs.end(), [](const RecordedRun& r) { return r.losses.size() >= 10; });
    if (has_losses) out.plots.push_back(losses_plot(runs, about));
  }
  for (Table t : {layers_table(g), scales_table(g)}) out.tables.push_back(std::move(t));
  for (Plot p : {map_plot(g, about), parts_plot(g, about), scales_plot(g, about)}) out.plots.push_back(std::move(p));
  if (reference != nullptr) scaler_parts(runs, *reference, out);
  out.finding = finding_of(runs, reference, g);
  if (g.is_bounded)
    out.notes.push_back(
        "The run recorded no largest values: the end of the binade stands for the largest of a tensor.");
  if (g.broke_at >= 0)
    out.notes.push_back("From the watched step " + std::to_string(g.broke_at) +
                        " on no gradient is finite and not zero; the one before is shown as the last.");
  if (g.in_fp16)
    out.notes.push_back(
        "Some gradients of this run were held in FP16: what it had lost by then is not among the shares.");
  out.notes.push_back(
      "Counted in binades: a value at the first or last place of one may be on the other side of a limit.");
  const bool has_seeds = std::any_of(runs.begin(), runs.end(), [](const RecordedRun& r) { return r.seed != 1; });
  if (runs.size() > 1 && !has_seeds)
    out.notes.push_back("One seed a recipe: small differences of losses may be the seed's.");
  return out;
}

const Register entered([]() -> Experiment {
  return {"large_run",
          "At the size of a real model, which recipe trains, what breaks first, and where does FP16 hurt?",
          -1,
          {run_parameter()},
          run};
});

}  // namespace
}  // namespace analysis::of_large_run
