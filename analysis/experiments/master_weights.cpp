// When is an update smaller than the weight can show? Lost updates against update / weight, and what training makes of
// it.
#include <cmath>
#include <map>

#include "analysis/framework/experiment.hpp"
#include "analysis/framework/shares.hpp"
#include "analysis/framework/training_runs.hpp"
#include "analysis/recordings/recorded_runs.hpp"
#include "narrow/base/random.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/text/quote.hpp"

namespace analysis::of_master_weights {
namespace {

using namespace narrow;
using enum PlotColour;

// ---- One update: the weight w in [1, 2) held in `format`, the update r * w of either sign in full precision ----

// What share of weights does not move at all.
double lost_share(const Format& format, double ratio, int samples, std::uint64_t seed) {
  int lost = 0;
  for (int i = 0; i < samples; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    const double w = round_to(1 + uniform(seed, index), format);
    const double update = (i % 2 == 0 ? ratio : -ratio) * w;
    lost += round_to(w + update, format) == w ? 1 : 0;
  }
  return static_cast<double>(lost) / samples;
}

// ---- Many updates of one sign: how much of their sum arrives ----

enum class Remedy { none, stochastic, kahan, master };
struct Way {
  std::string name;
  Remedy remedy;
  PlotColour colour;
};

// The weight after `steps` updates of ratio * start, as that way holds it.
double walked(const Format& format, Remedy remedy, double start, double ratio, int steps, std::uint64_t seed) {
  double w = start, carry = 0;
  for (int i = 0; i < steps; ++i) {
    const double update = ratio * start;
    if (remedy == Remedy::master) {
      w += update;  // the copy in FP32 or wider
    } else if (remedy == Remedy::kahan) {
      // carry holds, in the format, what the weight could not: y = update - carry, t = w + y, carry = (t - w) - y
      const double y = round_to(update - carry, format), t = round_to(w + y, format);
      carry = round_to((t - w) - y, format);
      w = t;
    } else {
      const Cast cast = remedy == Remedy::stochastic ? Cast{.rounding = Rounding::stochastic} : Cast{};
      w = round_to(w + update, format, cast, random_bits(seed, static_cast<std::uint64_t>(i)));
    }
  }
  return remedy == Remedy::master ? round_to(w, format) : w;
}

double arrived_share(const Format& format, Remedy remedy, double ratio, int weights, int steps, std::uint64_t seed) {
  double sum = 0;
  for (int i = 0; i < weights; ++i) {
    const double start = round_to(1 + 0.25 * uniform(seed, static_cast<std::uint64_t>(i)), format);
    const double end = walked(format, remedy, start, ratio, steps, mix_bits(seed + static_cast<std::uint64_t>(i)));
    sum += (end - start) / (ratio * start * steps);
  }
  return sum / weights;
}

Panel lost_panel(Table& table, int samples, std::uint64_t seed) {
  Panel p;
  p.title = "weights that do not move";
  p.x = {"update / weight", "", AxisScale::log2, {}, {}, {}, {}};
  p.y = {"lost", "%", AxisScale::linear, 0.0, 105.0, {}, {}};
  const std::vector<std::pair<std::string, PlotColour>> formats = {{"fp16", blue}, {"bf16", orange}, {"e4m3", green}};
  for (const auto& [name, colour] : formats) p.series.push_back({name, Draw::line, {}, {}, {}, {}, {}, colour});
  for (int quarter = 4 * 15; quarter >= 4 * 3; --quarter) {  // four ratios an octave
    const double ratio = std::exp2(-quarter / 4.0);
    std::vector<Cell> row = {ratio};
    for (std::size_t f = 0; f < formats.size(); ++f) {
      const double lost = lost_share(*find_format(formats[f].first), ratio, samples, seed);
      row.push_back(100 * lost);
      p.series[f].x.push_back(ratio), p.series[f].y.push_back(100 * lost);
    }
    table.add(row);
  }
  return p;
}

// The largest ratios, of those in the panel, at which every weight and at which some weight does not move.
struct Edges {
  double all = 0, some = 0;
};
Edges edges_of(const Series& s) {
  Edges e;
  for (std::size_t i = 0; i < s.x.size(); ++i) {
    if (s.y[i] == 100) e.all = s.x[i];
    if (s.y[i] > 0) e.some = s.x[i];
  }
  return e;
}

// ---- A run of real size: updates and weights are known by their binades ----

// The share of a tensor's updates below half of the last place of their weight, where the size of an update does not
// depend on that of its weight: a weight of binade e has the place 2^(e - m), a subnormal one the format's smallest.
double below_half_a_place(const ExponentHistogram& updates, const ExponentHistogram& weights, const Format& f) {
  const auto all_updates = static_cast<double>(nonzero_count(updates)), all = static_cast<double>(weights.count());
  if (all_updates == 0 || all == 0) return 0;
  double lost = 0, smaller = static_cast<double>(updates.subnormal.total());
  int e = ExponentHistogram::min_exponent;  // smaller: updates below 2^e
  for (int place = f.min_quantum_exponent(); place <= ExponentHistogram::max_exponent - f.mantissa_bits; ++place) {
    for (; e < place - 1; ++e) smaller += static_cast<double>(updates.binade(e).total());
    const int binade = place + f.mantissa_bits;  // of the weights with this place
    double held = static_cast<double>(weights.binade(std::max(binade, ExponentHistogram::min_exponent)).total());
    if (place == f.min_quantum_exponent()) {
      held += static_cast<double>(weights.zero.total() + weights.subnormal.total());
      for (int low = ExponentHistogram::min_exponent; low < binade; ++low)
        held += static_cast<double>(weights.binade(low).total());
    }
    lost += held / all * smaller;
  }
  return lost / all_updates;
}

struct Lost {
  double updates = 0, fp16 = 0, bf16 = 0;
};

std::map<std::int64_t, Lost> lost_updates(const std::string& folder) {
  std::map<std::int64_t, Lost> steps;
  std::map<std::string, ExponentHistogram> weights;  // of the step: they stand before their updates
  WatchedRun(folder).for_each_tensor([&](const WatchedTensor& t) {
    if (t.role == "parameter") weights[t.name] = t.histogram();
    const auto weight = weights.find(t.name);
    if (t.role != "update" || weight == weights.end() || weight->second.count() != t.count) return;
    const ExponentHistogram h = t.histogram();
    const auto nonzero = static_cast<double>(nonzero_count(h));
    Lost& l = steps[t.step];
    l.updates += nonzero;
    l.fp16 += nonzero * below_half_a_place(h, weight->second, "fp16"_fmt);
    l.bf16 += nonzero * below_half_a_place(h, weight->second, "bf16"_fmt);
  });
  std::erase_if(steps, [](const auto& s) { return s.second.updates == 0; });
  return steps;
}

// Adds what is known of the run, and says it.
std::string at_size(const std::string& folder, Outcome& out) {
  const std::map<std::int64_t, Lost> steps = lost_updates(folder);
  if (steps.empty()) return "";
  const RecordedRun run = recorded_run(folder);
  Table t{"large",
          "Updates below half of the last place of their weight, in " + run.name,
          {integer_column("step"), integer_column("updates"), real_column("fp16", "%", 3), real_column("bf16", "%", 3)},
          {},
          "from binades, where the size of an update does not depend on that of its weight within a tensor; shares of "
          "the updates that are not zero",
          {}};
  Panel p;
  p.x.label = "training step";
  p.y = {"below half of the last place", "% of the updates", AxisScale::linear, 0.0, 100.0, {}, {}};
  Series half{"fp16", Draw::line_points, {}, {}, {}, {}, {}, blue},
      coarse{"bf16", Draw::line_points, {}, {}, {}, {}, {}, orange};
  for (const auto& [step, l] : steps) {
    t.add({step, static_cast<std::int64_t>(l.updates), 100 * l.fp16 / l.updates, 100 * l.bf16 / l.updates});
    for (Series* s : {&half, &coarse}) s->x.push_back(static_cast<double>(step));
    half.y.push_back(100 * l.fp16 / l.updates), coarse.y.push_back(100 * l.bf16 / l.updates);
  }
  p.series = {half, coarse};
  const Lost& last = steps.rbegin()->second;
  const std::string where = "step " + std::to_string(steps.rbegin()->first) + " of " + run.name +
                            (run.parameters > 0 ? " (" + count_text(run.parameters) + " parameters)" : "");
  const std::string said = "By an estimate from binades " + percent_text(last.bf16 / last.updates) +
                           " of the updates of " + where + " are below half of the last place of a BF16 weight, " +
                           percent_text(last.fp16 / last.updates) + " of an FP16 weight";
  out.tables.push_back(std::move(t));
  out.plots.push_back({"large", said, "from the binades of updates and weights", {p}, 1, 0, ""});
  return "; b" + said.substr(1);
}

Outcome run(const Parameters& parameters, Progress& progress) {
  const auto samples = static_cast<int>(parameters.integer("samples"));
  const auto steps = static_cast<int>(parameters.integer("updates"));
  const auto seeds = static_cast<std::uint64_t>(parameters.integer("seeds"));
  const auto seed = static_cast<std::uint64_t>(parameters.integer("seed"));
  const Format bf16 = *find_format("bf16");

  Table lost{"lost",
             "Share of weights that one update does not move",
             {real_column("update / weight", "", 4), fixed_column("fp16", "%", 1), fixed_column("bf16", "%", 1),
              fixed_column("e4m3", "%", 1)},
             {},
             "weights uniform in [1, 2), updates of both signs, rounding to nearest even",
             {}};
  const Panel one = lost_panel(lost, samples, seed);

  const std::vector<Way> ways = {{"bf16", Remedy::none, vermilion},
                                 {"bf16, stochastic", Remedy::stochastic, green},
                                 {"bf16, Kahan", Remedy::kahan, purple},
                                 {"master weights", Remedy::master, ink}};
  Table arrived{"arrived",
                "Share of many equal updates that arrives in a bf16 weight",
                {real_column("update / weight", "", 4), integer_column("updates")},
                {},
                "mean over 64 weights; updates: " + std::to_string(steps) +
                    ", or as many as add up to half of the weight where that is fewer",
                {}};
  Panel many;
  many.title = "many equal updates in bf16";
  many.x = {"update / weight", "", AxisScale::log2, {}, {}, {}, {}};
  many.y = {"share that arrives", "%", AxisScale::linear, 0.0, 160.0, {}, {}};
  for (const Way& way : ways) {
    arrived.columns.push_back(fixed_column(way.name, "%", 1));
    many.series.push_back({way.name, Draw::line_points, {}, {}, {}, {}, {}, way.colour, way.remedy == Remedy::master});
  }
  for (int half = 2 * 15; half >= 2 * 6; --half) {
    const double ratio = std::exp2(-half / 2.0);
    // So few steps that the weight stays below 2, where its quantum doubles.
    const int used = std::max(1, std::min(steps, static_cast<int>(0.5 / ratio)));
    std::vector<Cell> row = {ratio, std::int64_t{used}};
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const double share = arrived_share(bf16, ways[i].remedy, ratio, 64, used, seed);
      row.push_back(100 * share);
      many.series[i].x.push_back(ratio), many.series[i].y.push_back(100 * share);
    }
    arrived.add(row);
    progress.at(0.2 * (1 - (half - 12) / 18.0), "updates");
  }

  // Real training with a small learning rate, where updates are small beside the weights.
  struct Trained {
    std::string recipe, name;
    PlotColour colour;
  };
  const std::vector<Trained> recipes = {{"fp32", "fp32", ink},
                                        {"bf16-amp", "bf16, master", sky},
                                        {"bf16-pure", "bf16", vermilion},
                                        {"bf16-pure-stochastic", "stochastic", green},
                                        {"bf16-pure-kahan", "Kahan", purple},
                                        {"fp16-pure", "fp16", blue}};
  Table training{
      "training",
      "Handwritten digits: final loss with and without master weights",
      {text_column("recipe"), real_column("final loss", "", 4), real_column("lowest", "", 4),
       real_column("highest", "", 4), real_column("update / weight", "", 3), integer_column("runs that broke")},
      {},
      "over " + std::to_string(seeds) + " seeds; update / weight: norms, mean over the second half of the run",
      {}};
  Panel curves;
  curves.title = "digits: training loss";
  curves.x = {"step", "", AxisScale::linear, {}, {}, {}, {}};
  curves.y = {"loss, mean of 20 steps", "", AxisScale::linear, {}, {}, {}, {}};
  double wide = 0, pure = 0, rescued = 0;
  for (std::size_t i = 0; i < recipes.size(); ++i) {
    const auto& [recipe, name, colour] = recipes[i];
    const double from = 0.2 + 0.8 * static_cast<double>(i) / static_cast<double>(recipes.size());
    const RunPlan plan{.recipe = recipe,
                       .steps = static_cast<std::uint64_t>(parameters.integer("steps")),
                       .rate = parameters.real("rate")};
    const auto runs = training_runs(over_seeds(plan, seeds), progress, from, from + 0.8 / static_cast<double>(recipes.size()));
    const LossSpread spread = spread_of(runs);
    double ratio = 0, counted = 0;
    for (const auto* r : runs)
      for (std::size_t k = r->rows.size() / 2; k < r->rows.size(); ++k) ratio += r->rows[k].update_ratio, ++counted;
    training.add({recipe, spread.mean, spread.low, spread.high, ratio / std::max(counted, 1.0),
                  static_cast<std::int64_t>(spread.broke)});
    const Curve c = loss_curve(*runs.front(), 20);
    if (!c.x.empty()) curves.series.push_back({name, Draw::line, c.x, c.y, {}, {}, {}, colour, recipe == "fp32"});
    if (recipe == "fp32") wide = spread.mean;
    if (recipe == "bf16-pure") pure = spread.mean;
    if (recipe == "bf16-pure-stochastic") rescued = spread.mean;
  }

  const Edges b = edges_of(one.series[1]), h = edges_of(one.series[0]);
  const auto power = [](double x) {
    return "2^" + fixed_text(std::log2(x), std::log2(x) == std::floor(std::log2(x)) ? 0 : 2);
  };
  const auto loss = [](double x) { return std::isfinite(x) ? fixed_text(x, 2) : std::string("NaN"); };
  Outcome out;
  out.data = "made weights and updates; handwritten digits that come with narrow, trained here";
  out.tables = {lost, arrived, training};
  out.plots = {{"updates",
                "BF16 shows no update below " + power(b.all) + " of its weight; its loss ends at " + loss(pure) +
                    ", FP32's at " + loss(wide),
                "Left: one update; middle: many; right: an MLP on 8x8 digits, AdamW at " +
                    significant_text(parameters.real("rate"), 3) + " of its usual rate",
                {one, many, curves},
                3,
                0,
                ""}};
  out.finding = "Every update up to " + power(b.all) + " of the weight is lost in BF16 (FP16: " + power(h.all) +
                "), and some up to " + power(b.some) + " (FP16: " + power(h.some) + "); on digits at " +
                significant_text(parameters.real("rate"), 3) + " of the usual learning rate pure BF16 ends at loss " +
                loss(pure) + " where FP32 ends at " + loss(wide) + ", and with stochastic rounding at " + loss(rescued);
  const std::vector<RecordedRun> recorded = recorded_runs();
  const RecordedRun* usual = find_run(recorded, "bf16-amp");
  const std::string& given = parameters.text("run");
  if (const std::string folder = !given.empty() ? given : usual != nullptr ? usual->folder : ""; !folder.empty()) {
    const std::string large = at_size(folder, out);
    if (large.empty() && !given.empty()) throw Error("run=" + quote(given) + ": no updates of parameters were watched");
    out.finding += large;
    if (!large.empty()) out.data.text += "; updates of " + file_text(folder);
    if (given.empty()) out.evidence.push_back(recorded_text("").basis);
  }
  out.finding += ".";
  return out;
}

const Register entered([]() -> Experiment {
  return {"master_weights",
          "Which updates does a narrow weight lose, and what does a master copy save?",
          4,
          {integer_parameter("samples", {4000, 20000, 200000}, 100, 1e8, "weights a ratio"),
           integer_parameter("updates", {4096, 8192, 65536}, 1, 1e6, "equal updates in a row"),
           integer_parameter("steps", {200, 400, 1000}, 20, 1e6, "training steps"),
           real_parameter("rate", 0.05, 1e-6, 100, "factor of the task's learning rate"),
           integer_parameter("seeds", {1, 3, 5}, 1, 100, "training runs a recipe"),
           integer_parameter("seed", 1, 0, 1e15, "seed of the weights"), run_parameter()},
          run};
});

}  // namespace
}  // namespace analysis::of_master_weights
