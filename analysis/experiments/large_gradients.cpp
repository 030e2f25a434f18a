#include "analysis/experiments/large_gradients.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "analysis/framework/experiment.hpp"
#include "analysis/recordings/gradients.hpp"

namespace analysis::of_large_run {

using enum PlotColour;

namespace {

constexpr Format fp16 = "fp16"_fmt;

// Words and numbers by turns: blocks.2 before blocks.10.
std::vector<std::pair<std::string, std::string>> parts_of_name(const std::string& name) {
  std::vector<std::pair<std::string, std::string>> parts;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t i = 0; i < name.size();) {
    std::size_t word = i, number;
    while (i < name.size() && !is_digit(name[i])) ++i;
    std::string text = name.substr(word, i - word);
    while (i < name.size() && name[i] == '0') ++i;
    for (number = i; i < name.size() && is_digit(name[i]);) ++i;
    // As many digits, then the digits: a number of any length.
    parts.emplace_back(std::move(text),
                       std::string(1, static_cast<char>(i - number)) + name.substr(number, i - number));
  }
  return parts;
}

bool is_before(const std::string& a, const std::string& b) {
  const auto x = parts_of_name(a), y = parts_of_name(b);
  return x != y ? x < y : a < b;
}

}  // namespace

void sort_layers(std::vector<std::string>& names) { std::sort(names.begin(), names.end(), is_before); }

double zero_at(const ExponentHistogram& h, int scale_log2) {
  return nonzero_count(h) == 0 ? std::nan("") : shares_of(h, fp16, scale_log2).zero;
}

void Scores::see(const WatchedTensor& t) {
  if (t.role != "score") return;
  if (t.finite() != t.count && broke_at < 0) broke_at = t.step;
  is_bounded = is_bounded || !t.has_extremes;
  if (t.amax > 0) largest[t.step] = std::max(largest[t.step], t.amax);
}

Scores scores_in(const std::string& folder) {
  Scores scores;
  WatchedRun(folder).for_each_tensor([&](const WatchedTensor& t) { scores.see(t); });
  return scores;
}

Reference read_reference(const std::string& folder) {
  Reference r;
  GradientsByStep& g = r.gradients;
  const WatchedRun run(folder);
  run.for_each_tensor([&](const WatchedTensor& t) {
    if (t.is_gradient()) g.add(t, unscaled_histogram(run, t));
    if (t.role == "activation_gradient" && t.dtype != "fp16" && t.scale == 1 && t.finite() == t.count)
      r.wide[{t.step, t.series()}] = t.histogram();
    r.scores.see(t);
    r.last.add(t);
  });
  sort_layers(g.order);
  g.drop_empty_end();
  return r;
}

Reference made_reference() {
  Reference r;
  for (const int step : {0, 50})
    for (const int layer : {0, 1}) {
      const WatchedTensor t = made_tensor(step, "blocks." + std::to_string(layer) + ".weight", -14 - layer - step / 10);
      r.gradients.add(t, t.histogram());
      r.last.add(t);
    }
  return r;
}

Worst worst_layer(const GradientsByStep& g) {
  Worst worst;
  for (const auto& [layer, pool] : g.layers.at(g.last_step()))
    if (nonzero_count(pool.h) > 0)
      if (const double zero = zero_at(pool.h, 0); zero > worst.zero) worst = {layer, zero};
  return worst;
}

namespace {

// ---- What FP16 would lose of the reference's gradients

// So many of a list, evenly, the first and the last among them.
template <class T>
std::vector<T> some_of(const std::vector<T>& all, std::size_t most) {
  std::vector<T> some;
  const std::size_t n = std::min(most, all.size());
  for (std::size_t i = 0; i < n; ++i) some.push_back(all[n == 1 ? 0 : i * (all.size() - 1) / (n - 1)]);
  return some;
}

std::vector<std::int64_t> some_steps(const GradientsByStep& g) {
  std::vector<std::int64_t> all;
  for (const auto& [step, pool] : g.steps) all.push_back(step);
  return some_of(all, 10);
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

Plot map_plot(const GradientsByStep& g, const std::string& about) {
  Panel p;
  p.x.label = "training step", p.y.label = "layer";
  p.cells = {"zero in FP16 without a loss scale", "%", false, 2};
  Series cells{"", Draw::cells};
  const std::vector<std::int64_t> steps = some_steps(g);
  for (const std::int64_t step : steps) p.x.categories.push_back(std::to_string(step));
  constexpr std::size_t most = 40;  // layers of a picture
  const std::vector<std::string> order = some_of(g.order, most);
  for (std::size_t y = 0; y < order.size(); ++y) {
    p.y.categories.push_back(order[y]);
    for (std::size_t x = 0; x < steps.size(); ++x) {
      const auto& layers = g.layers.at(steps[x]);
      const auto found = layers.find(order[y]);
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
          about + (order.size() < g.order.size()
                       ? "; " + std::to_string(order.size()) + " of " + std::to_string(g.order.size()) + " layers"
                       : ""),
          {p},
          1,
          30.0 * static_cast<double>(order.size()) + 120,
          ""};
}

Plot parts_plot(const GradientsByStep& g, const std::string& about) {
  constexpr std::size_t most = 16;
  std::vector<std::pair<std::string, FormatShares>> rows;
  for (const auto& [part, pool] : g.parts.at(g.last_step()))
    if (nonzero_count(pool.h) > 0) rows.emplace_back(part, shares_of(pool.h, fp16));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.zero > b.second.zero; });
  const std::string most_lost = percent_text(rows.front().second.zero),
                    least_lost = percent_text(rows.back().second.zero);
  const std::string title = most_lost == least_lost
                                ? "Every part loses " + most_lost + " to zero"
                                : rows.front().first + " loses most, " + most_lost + " to zero, and " +
                                      rows.back().first + " least, " + least_lost;
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
  Table t{
      "loss_scales",
      "FP16 at any loss scale, from the binades",
      {integer_column("step"), power_column("loss scale"), real_column("zero", "%", 3),
       real_column("subnormal", "%", 3), text_column("overflows")},
      {},
      "overflows: the largest gradient times the scale is 65520 or more, and the step would be skipped; maybe: of the "
      "largest no more than its binade is known",
      {}};
  for (const std::int64_t step : some_steps(g)) {
    const Pool& pool = g.steps.at(step);
    if (nonzero_count(pool.h) == 0) continue;
    for (int k = 0; k <= 30; k += 2) {
      const FormatShares s = shares_of(pool.h, fp16, k);
      const bool may = std::ldexp(pool.amax, k) >= fp16_overflows_from,
                 does = std::ldexp(pool.least_amax, k) >= fp16_overflows_from;
      t.add({step, std::ldexp(1.0, k), 100 * s.zero, 100 * s.subnormal,
             std::string(does  ? "yes"
                         : may ? "maybe"
                               : "no")});
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
  const int limit = largest_scale_log2(g.last().amax);
  const std::string step = "step " + std::to_string(g.last_step());
  if (limit >= 0 && limit <= 30)
    p.marks = {{Along::x, static_cast<double>(limit),
                "above: " + step + (g.is_bounded ? " may overflow" : " overflows"), grey}};
  const std::string bare = percent_text(zero_at(g.last().h, 0));
  const int at = std::min(limit, 30);
  return {"what_if",
          limit < 0 ? "The largest gradient of " + step + ", " + significant_text(g.last().amax, 3) +
                          ", overflows without a loss scale; " + bare + " become zero"
                    : "At " + step + " a loss scale of 2^" + std::to_string(at) + " leaves " +
                          percent_text(zero_at(g.last().h, at)) + " zero, none " + bare,
          about,
          {p},
          1,
          0,
          ""};
}

}  // namespace

void gradient_parts(const GradientsByStep& g, const std::string& about, Outcome& out) {
  for (Table t : {layers_table(g), scales_table(g)}) out.tables.push_back(std::move(t));
  for (Plot p : {map_plot(g, about), parts_plot(g, about), scales_plot(g, about)}) out.plots.push_back(std::move(p));
}

namespace {

// ---- FP8: what a scale a tensor gives back

struct Fp8Row {
  double values = 0;
  std::size_t tensors = 0;
  std::array<double, 4> lost = {};  // zero or beyond: E4M3 without and with a scale, E5M2 without and with one
};

// A scale that is sure to fit: a power of two that moves the largest binade below the format's last.
int fitting_scale_log2(const ExponentHistogram& h, const Format& f) {
  int top = ExponentHistogram::max_exponent;
  while (top >= ExponentHistogram::min_exponent && h.binade(top).total() == 0) --top;
  return std::min(f.max_exponent() - 1 - top, 126);
}

}  // namespace

Fp8Worst worst_layer_in_fp8(const std::vector<WatchedTensor>& tensors) {
  std::map<std::pair<std::string, std::string>, std::pair<double, double>> lost;  // values lost, and all
  for (const WatchedTensor& t : tensors) {
    const std::string kind = t.role == "activation_gradient" ? "gradients of activations"
                             : t.role == "activation"        ? "activations"
                             : t.role == "parameter"         ? "weights"
                                                             : "";
    const ExponentHistogram h = t.histogram();
    if (kind.empty() || nonzero_count(h) == h.subnormal.total()) continue;
    const Format f = t.role == "activation_gradient" ? "e5m2"_fmt : "e4m3"_fmt;
    const FormatShares s = shares_of(h, f, fitting_scale_log2(h, f));
    auto& [gone, all] = lost[{layer_of(t.name), kind}];
    gone += static_cast<double>(nonzero_count(h)) * (s.zero + s.overflow), all += static_cast<double>(nonzero_count(h));
  }
  Fp8Worst worst;
  for (const auto& [of, sums] : lost)
    if (sums.first / sums.second > worst.lost) worst = {of.first, of.second, sums.first / sums.second};
  return worst;
}

void fp8_parts(const Reference& read, const std::string& about, Outcome& out) {
  constexpr Format formats[] = {"e4m3"_fmt, "e5m2"_fmt};
  constexpr const char* words[] = {
      "gradients of weights", "gradients of activations", "activations", "weights", "updates", "attention scores"};
  std::array<Fp8Row, std::size(watched_roles)> rows;
  for (const WatchedTensor& t : read.last.tensors()) {
    const ExponentHistogram h = t.histogram();
    const auto nonzero = static_cast<double>(nonzero_count(h));
    const auto role = static_cast<std::size_t>(std::find(std::begin(watched_roles), std::end(watched_roles), t.role) -
                                               std::begin(watched_roles));
    if (nonzero == 0 || nonzero_count(h) == h.subnormal.total()) continue;
    ++rows[role].tensors, rows[role].values += nonzero;
    for (std::size_t f = 0; f < 2; ++f) {
      const FormatShares plain = shares_of(h, formats[f]),
                         scaled = shares_of(h, formats[f], fitting_scale_log2(h, formats[f]));
      rows[role].lost[2 * f] += nonzero * (plain.zero + plain.overflow);
      rows[role].lost[2 * f + 1] += nonzero * (scaled.zero + scaled.overflow);
    }
  }
  Table t{
      "fp8",
      "What FP8 is sure to lose to zero and overflow at the last watched step, without a scale and with one a tensor",
      {text_column("kind"), integer_column("tensors"), integer_column("values"), real_column("E4M3, no scale", "%", 3),
       real_column("E4M3, scaled", "%", 3), real_column("E5M2, no scale", "%", 3), real_column("E5M2, scaled", "%", 3)},
      {},
      "shares of the values that are finite and not zero; scaled: by a power of two of each tensor's own that moves "
      "its largest binade below the last of the format; gradients without a scale are as they were in memory, "
      "times a loss scale where there was one",
      {}};
  Panel p;
  p.y = {"zero or overflow", "%", AxisScale::linear, 0.0, 100.0, {}, {}};
  Series bars[4] = {{"E4M3, no scale", Draw::bars, {}, {}, {}, {}, {}, vermilion},
                    {"E4M3, scaled", Draw::bars, {}, {}, {}, {}, {}, green},
                    {"E5M2, no scale", Draw::bars, {}, {}, {}, {}, {}, orange},
                    {"E5M2, scaled", Draw::bars, {}, {}, {}, {}, {}, purple}};
  std::size_t worst = std::size(watched_roles);
  for (std::size_t role = 0; role < rows.size(); ++role) {
    Fp8Row& r = rows[role];
    if (r.tensors == 0) continue;
    for (double& x : r.lost) x /= r.values;
    t.add({std::string(words[role]), static_cast<std::int64_t>(r.tensors), static_cast<std::int64_t>(r.values),
           100 * r.lost[0], 100 * r.lost[1], 100 * r.lost[2], 100 * r.lost[3]});
    for (std::size_t i = 0; i < 4; ++i)
      bars[i].x.push_back(static_cast<double>(p.x.categories.size())), bars[i].y.push_back(100 * r.lost[i]);
    p.x.categories.emplace_back(words[role]);
    if (worst == rows.size() || r.lost[0] > rows[worst].lost[0]) worst = role;
  }
  if (worst == rows.size()) return;
  p.series.assign(std::begin(bars), std::end(bars));
  out.tables.push_back(std::move(t));
  out.plots.push_back({"fp8",
                       "Without a scale E4M3 loses " + percent_text(rows[worst].lost[0]) + " of the " + words[worst] +
                           ", with one a tensor " + percent_text(rows[worst].lost[1]) + "; E5M2 " +
                           percent_text(rows[worst].lost[2]) + " and " + percent_text(rows[worst].lost[3]),
                       about,
                       {p},
                       1,
                       0,
                       ""});
}

}  // namespace analysis::of_large_run
