// What does stochastic rounding buy, and how many random bits does it need: bias, variance, and updates that stagnate.
#include <cmath>

#include "analysis/framework/experiment.hpp"
#include "analysis/recordings/inputs.hpp"
#include "narrow/base/random.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/round/round_to.hpp"

namespace analysis::of_stochastic_rounding {
namespace {

using namespace narrow;
using enum PlotColour;

struct Mode {
  std::string name;
  Cast cast;
  PlotColour colour;
};

Mode stochastic(int bits, PlotColour colour) {
  return {std::to_string(bits) + " random bits", {.rounding = Rounding::stochastic, .random_bits = bits}, colour};
}

// ---- A weight of 1 that gets the same small update again and again, and holds it in `format` ----

struct Walk {
  std::vector<double> weight;  // after each step
};

Walk walk(const Format& format, const Cast& cast, double update, int steps, std::uint64_t seed) {
  Walk w;
  double x = 1;
  for (int i = 0; i < steps; ++i) {
    x = round_to(x + update, format, cast, random_bits(seed, static_cast<std::uint64_t>(i)));  // x + update is exact
    w.weight.push_back(x);
  }
  return w;
}

struct Kept {
  double mean = 0, deviation = 0;  // of (weight - 1) / (sum of the updates), over the runs
};

// So many steps that the weight stays below 2, where its quantum would double.
int steps_for(double update, int most) { return std::max(1, std::min(most, static_cast<int>(0.9 / update))); }

Kept kept_share(const Format& format, const Mode& mode, double update, int most, int runs, std::uint64_t seed) {
  const int steps = steps_for(update, most);
  const int needed = mode.cast.rounding == Rounding::stochastic ? runs : 1;
  double sum = 0, squares = 0;
  for (int r = 0; r < needed; ++r) {
    const Walk w = walk(format, mode.cast, update, steps, mix_bits(seed + static_cast<std::uint64_t>(r)));
    const double kept = (w.weight.back() - 1) / (update * steps);
    sum += kept, squares += kept * kept;
  }
  const double mean = sum / needed;
  return {mean, std::sqrt(std::max(0.0, squares / needed - mean * mean))};
}

// ---- Bias and variance of one rounding, in quanta of the result ----

struct Moments {
  double bias = 0, rms = 0;
};

Moments moments(const Format& format, const Cast& cast, int samples, std::uint64_t seed) {
  const double quantum = std::ldexp(1.0, -format.mantissa_bits);
  double sum = 0, squares = 0;
  for (int i = 0; i < samples; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    const double x = 1 + uniform(seed, index);
    const double e = (round_to(x, format, cast, random_bits(seed + 1, index)) - x) / quantum;
    sum += e, squares += e * e;
  }
  return {sum / samples, std::sqrt(squares / samples)};
}

Panel walk_panel(const Format& format, const std::string& name, double update, int steps, int runs,
                 std::uint64_t seed) {
  Panel p;
  p.title = "updates of 2^" + std::to_string(static_cast<int>(std::log2(update)));
  p.x = {"step", "", AxisScale::linear, 0.0, static_cast<double>(steps), {}, {}};
  p.y = {"weight in " + name, "", AxisScale::linear, {}, {}, {}, {}};
  std::vector<double> x, exact, low(static_cast<std::size_t>(steps), 1e9), high(static_cast<std::size_t>(steps), 0);
  for (int i = 0; i < steps; ++i) x.push_back(i + 1), exact.push_back(1 + update * (i + 1));
  Series one{"one of them", Draw::steps, x, {}, {}, {}, {}, green};
  for (int r = 0; r < runs; ++r) {
    const Walk w =
        walk(format, {.rounding = Rounding::stochastic}, update, steps, mix_bits(seed + static_cast<std::uint64_t>(r)));
    for (std::size_t i = 0; i < x.size(); ++i)
      low[i] = std::min(low[i], w.weight[i]), high[i] = std::max(high[i], w.weight[i]);
    if (r == 0) one.y = w.weight;
  }
  Series band{std::to_string(runs) + " stochastic runs", Draw::band, x, {}, low, high, {}, green, false, true};
  p.series = {band,
              {"exact", Draw::line, x, exact, {}, {}, {}, ink, true},
              one,
              {"to nearest", Draw::line, x, walk(format, {}, update, steps, 0).weight, {}, {}, {}, vermilion}};
  return p;
}

Outcome run(const Parameters& parameters, Progress& progress) {
  const std::string name = parameters.text("format");
  const Format format = *find_format(name);
  const auto runs = static_cast<int>(parameters.integer("runs"));
  const auto most = static_cast<int>(parameters.integer("steps"));
  const auto samples = static_cast<int>(parameters.integer("samples"));
  const auto seed = static_cast<std::uint64_t>(parameters.integer("seed"));
  const int m = format.mantissa_bits;
  const std::vector<Mode> modes = {
      {"to nearest", {}, vermilion}, stochastic(32, green), stochastic(8, blue), stochastic(4, orange)};

  Table kept_table{
      "kept",
      "Share of an update that arrives, against its size relative to the weight",
      {real_column("update / weight", "", 4), integer_column("steps")},
      {},
      "mean and standard deviation over " + std::to_string(runs) + " runs of `steps` equal updates to a weight of 1",
      {}};
  for (const Mode& mode : modes) {
    kept_table.columns.push_back(fixed_column(mode.name, "%", 1));
    if (mode.cast.rounding == Rounding::stochastic)
      kept_table.columns.push_back(fixed_column(mode.name + ", deviation", "%", 1));
  }
  Panel kept_panel;
  kept_panel.title = "what arrives";
  kept_panel.x = {"update / weight", "", AxisScale::log2, {}, {}, {}, {}};
  kept_panel.y = {
      "share of the updates, mean of " + std::to_string(runs) + " runs", "%", AxisScale::linear, 0.0, 160.0, {}, {}};
  for (const Mode& mode : modes)
    kept_panel.series.push_back({mode.name, Draw::line_points, {}, {}, {}, {}, {}, mode.colour});
  // The largest updates of which nothing can arrive, by mode: 0 when something of every update may. What runs show is
  // chance; the draw that rounds up most decides.
  const auto is_lost = [&](const Mode& mode, double update) {
    return round_to(1 + update, format, mode.cast, ~std::uint64_t{0}) == 1;
  };
  double never = 0, random_never = 0, lost_with_8 = 0, at_chosen = 0;
  const double chosen = std::ldexp(1.0, -(m + 5));
  const int octaves = 13;
  for (int half = 2 * octaves; half >= 0; --half) {  // from small to large, two updates an octave: 1 and 1.5 times 2^-k
    const double update = std::ldexp(half % 2 == 0 ? 1.0 : 1.5, -(m - 1) - (half + 1) / 2);
    std::vector<Cell> row = {update, std::int64_t{steps_for(update, most)}};
    for (std::size_t i = 0; i < modes.size(); ++i) {
      const Kept k = kept_share(format, modes[i], update, most, runs, seed);
      row.push_back(100 * k.mean);
      if (modes[i].cast.rounding == Rounding::stochastic) row.push_back(100 * k.deviation);
      kept_panel.series[i].x.push_back(update);
      kept_panel.series[i].y.push_back(100 * k.mean);
      if (i == 0 && is_lost(modes[i], update)) never = update;
      if (i == 1 && is_lost(modes[i], update)) random_never = update;
      if (i == 1 && update == chosen) at_chosen = k.mean;
      if (i == 2 && is_lost(modes[i], update)) lost_with_8 = update;
    }
    kept_table.add(row);
    progress.at(0.7 * (1 - half / (2.0 * octaves)));
  }

  Table bits_table{"bits",
                   "One rounding: bias and error in quanta of the result, against the number of random bits",
                   {text_column("rounding"), integer_column("random bits"), real_column("bias", "quanta", 3),
                    real_column("expected bias", "quanta", 3), real_column("rms error", "quanta", 3)},
                   {},
                   "expected: the comparison sees floor(rest * 2^bits), so stochastic rounding with n bits is 2^-(n+1) "
                   "short on average",
                   {}};
  Panel bias_panel;
  bias_panel.title = "bias of one rounding";
  bias_panel.x = {"random bits", "", AxisScale::linear, 0.0, {}, {}, {}};
  bias_panel.y = {"size of the bias", "quanta", AxisScale::log2, {}, {}, {}, {}};
  Series measured{"measured", Draw::points, {}, {}, {}, {}, {}, blue},
      expected{"expected", Draw::line, {}, {}, {}, {}, {}, ink, true};
  // Below its own standard error, rms 0.41 over sqrt(samples), the mean of the samples says nothing: no point there.
  const double noise = 0.41 / std::sqrt(static_cast<double>(samples));
  const Moments nearest = moments(format, {}, samples, seed),
                cut = moments(format, {.rounding = Rounding::toward_zero}, samples, seed);
  bits_table.add({std::string("to nearest even"), Cell{}, nearest.bias, 0.0, nearest.rms});
  bits_table.add({std::string("toward zero"), Cell{}, cut.bias, -0.5, cut.rms});
  for (int bits = 1; bits <= 16; ++bits) {
    const Moments s = moments(format, {.rounding = Rounding::stochastic, .random_bits = bits}, samples, seed);
    const double expect = std::ldexp(1.0, -(bits + 1));
    bits_table.add({std::string("stochastic"), std::int64_t{bits}, s.bias, -expect, s.rms});
    if (expect > 2 * noise) {
      measured.x.push_back(bits), measured.y.push_back(std::fabs(s.bias));
      expected.x.push_back(bits), expected.y.push_back(expect);
    }
    progress.at(0.7 + 0.3 * bits / 16.0);
  }
  bias_panel.series = {expected, measured};

  const auto power = [](double x) { return "2^" + std::to_string(static_cast<int>(std::floor(std::log2(x)))); };
  Outcome out;
  Plot plot{"rounding", "", "", {}, 3, 0, ""};
  plot.panels = {walk_panel(format, name, chosen * 4, std::min(most, 1000), std::min(runs, 32), seed), kept_panel,
                 bias_panel};
  const std::string lost = never > 0 ? "all updates up to " + power(never) + " of the weight" : "no update entirely";
  plot.title = "Rounding to nearest loses " + lost + ", stochastic rounding " +
               (random_never > 0 ? "up to " + power(random_never) : "none");
  plot.subtitle = "A weight of 1 held in " + name + ", updates added one by one, no master copy";
  out.plots = {plot};
  out.data = "made numbers";
  out.tables = {kept_table, bits_table};
  out.finding = "A weight of 1 in " + name + " loses " + lost + " to rounding to nearest; stochastic rounding lets " +
                percent_text(at_chosen, 3) + " of updates of " + power(chosen) + " arrive in the mean of " +
                count_text(runs) + " runs, " +
                (lost_with_8 > 0 ? "but with 8 random bits nothing below " + power(2 * lost_with_8)
                                 : "and with 8 random bits something of each") +
                ".";
  return out;
}

const Register entered([]() -> Experiment {
  return {"stochastic_rounding",
          "What does stochastic rounding buy, and how many random bits does it need?",
          8,
          {choice_parameter("format", {"bf16", "fp16", "e4m3", "e5m2"}, "format that holds the weight"),
           integer_parameter("runs", {500, 1000, 10000}, 2, 100000, "runs with other random bits"),
           integer_parameter("steps", {1000, 2000, 10000}, 10, 1000000, "updates a run"),
           integer_parameter("samples", {1000000, 4000000, 100000000}, 1000, 1e9, "roundings for bias and variance"),
           integer_parameter("seed", 1, 0, 1e15, "seed of the random bits")},
          run};
});

}  // namespace
}  // namespace analysis::of_stochastic_rounding
