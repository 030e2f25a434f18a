#include "analysis/experiments/large_findings.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/recordings/gradients.hpp"

namespace analysis::of_large_run {

using enum PlotColour;

namespace {

Cell known(double x) { return std::isfinite(x) ? Cell{x} : Cell{}; }

// ---- Every run against the best

constexpr std::size_t window = 10;  // steps of a mean

std::vector<double> window_means(const RecordedRun& r) {
  std::vector<double> means;
  for (std::size_t i = 0; i + window <= r.losses.size(); i += window) {
    double sum = 0;
    for (std::size_t k = i; k < i + window; ++k) sum += r.losses[k].loss;
    means.push_back(sum / window);
  }
  return means;
}

// The largest difference of any two runs in each window that all have.
std::vector<double> spread_by_window(const std::vector<const RecordedRun*>& runs) {
  std::vector<double> low, high;
  for (const RecordedRun* r : runs) {
    const std::vector<double> means = window_means(*r);
    if (low.empty()) low = high = means;
    const std::size_t common = std::min(low.size(), means.size());
    low.resize(common), high.resize(common);
    for (std::size_t i = 0; i < common; ++i) low[i] = std::min(low[i], means[i]), high[i] = std::max(high[i], means[i]);
  }
  for (std::size_t i = 0; i < low.size(); ++i) high[i] -= low[i];
  return high;
}

// The first step from which on a run stays above another by more than the seeds ever differ; -1 where it does not.
std::int64_t departs_at(const RecordedRun& r, const RecordedRun& from, double limit) {
  const std::vector<double> own = window_means(r), other = window_means(from);
  std::size_t first = std::min(own.size(), other.size());
  while (first > 0 && !(own[first - 1] <= other[first - 1] + limit)) --first;
  return first == std::min(own.size(), other.size()) ? -1 : r.losses[first * window].step;
}

// One change between two recordings.
struct Change {
  const char *what, *run, *with;
};
constexpr Change changes[] = {
    {"FP16 without a loss scale", "fp16-amp-noscale", "fp16-amp"},
    {"loss scale from 2^4, not 2^16", "fp16-amp-2^4", "fp16-amp"},
    {"loss scale from 2^30, not 2^16", "fp16-amp-2^30", "fp16-amp"},
    {"all in FP16", "fp16-pure", "fp16-amp"},
    {"FP16, not BF16", "fp16-amp", "bf16-amp"},
    {"no master copy in FP32", "bf16-pure", "bf16-amp"},
    {"stochastic rounding of weights", "bf16-pure-stochastic", "bf16-pure"},
    {"stochastic rounding, not a master copy", "bf16-pure-stochastic", "bf16-amp"},
    {"FP8 products", "fp8-current", "bf16-amp"},
    {"FP8 without scales", "fp8-noscale", "fp8-current"},
    {"scales of the steps before", "fp8-delayed", "fp8-current"},
    {"scales of blocks of 32", "mxfp8", "fp8-current"},
    {"FP4, not FP8", "nvfp4", "fp8-current"},
    {"FP4 without its remedies", "nvfp4-plain", "nvfp4"},
    {"INT8 products", "int8", "bf16-amp"},
    {"softmax in FP8 too", "fp8-current-softmax", "fp8-current"},
    {"norms in FP8 too", "fp8-current-norm", "fp8-current"},
    {"residual sum in FP8 too", "fp8-current-residual", "fp8-current"},
    {"logits in FP8 too", "fp8-current-logits", "fp8-current"},
    {"queries and keys normed, at 10 x the rate", "bf16-amp-rate0.006-qk_norm", "bf16-amp-rate0.006"},
    {"scores over d, not its root, at 10 x the rate", "bf16-amp-rate0.006-small_q", "bf16-amp-rate0.006"},
    {"scores capped at 30, at 10 x the rate", "bf16-amp-rate0.006-soft_cap", "bf16-amp-rate0.006"},
};

std::vector<Column> difference_columns() {
  return {fixed_column("final loss above", "", 3), fixed_column("in spreads of seeds", "", 1),
          fixed_column("held out above", "", 3), fixed_column("in spreads", "", 1), text_column("it is")};
}

void add_difference(Table& t, std::vector<Cell> row, const Compared& c) {
  for (const double x : {c.final_loss, c.final_in_spreads, c.held_out, c.held_out_in_spreads}) row.push_back(known(x));
  row.emplace_back(text_of(c.verdict));
  t.add(std::move(row));
}

}  // namespace

bool Ranking::is_among(const std::vector<const RecordedRun*>& some, const RecordedRun& run) const {
  return std::find(some.begin(), some.end(), &run) != some.end();
}

// The held-out text is the same for all runs, the batches only for those of a seed: where all know it, it ranks.
Ranking rank(const std::vector<RecordedRun>& runs) {
  Ranking ranking;
  ranking.seeds = spread_of_seeds(runs);
  std::size_t longest = 0;
  for (const RecordedRun& r : runs)
    if (r.is_usual()) longest = std::max(longest, r.losses.size());
  std::vector<const RecordedRun*> comparable;
  bool all_held_out = true;
  for (const RecordedRun& r : runs)
    if (r.is_usual() && longest > 0 && r.losses.size() == longest) {
      comparable.push_back(&r);
      all_held_out = all_held_out && (std::isnan(r.final_loss()) || std::isfinite(r.held_out_loss));
    }
  const auto rank_of = [&](const RecordedRun& r) { return all_held_out ? r.held_out_loss : r.final_loss(); };
  if (comparable.size() < 2) return ranking;
  for (const RecordedRun* r : comparable)
    if (!std::isnan(r->final_loss()) && (ranking.best == nullptr || rank_of(*r) < rank_of(*ranking.best)))
      ranking.best = r;
  if (ranking.best == nullptr) return ranking;
  for (const RecordedRun* r : comparable) {
    const Difference verdict = compare(*r, *ranking.best, ranking.seeds).verdict;
    (r == ranking.best || verdict == Difference::within || verdict == Difference::undecided ? ranking.good
     : verdict == Difference::above                                                         ? ranking.worse
                                                                                            : ranking.open)
        .push_back(r);
  }
  return ranking;
}

std::string seeds_text(const SeedSpread& seeds) {
  return seeds.runs.front()->recipe + "'s " + std::to_string(seeds.runs.size()) + " seeds";
}

std::vector<Break> breaks_of(const Ranking& ranking) {
  const std::vector<double> spread = spread_by_window(ranking.seeds.runs);
  const double limit = spread.empty() ? std::nan("") : *std::max_element(spread.begin(), spread.end());
  std::vector<Break> breaks;
  for (const RecordedRun* r : ranking.worse) {
    if (const auto step = r->first_not_finite()) breaks.push_back({r, *step, true});
    else if (const std::int64_t at = std::isnan(limit) ? -1 : departs_at(*r, *ranking.best, limit); at >= 0)
      breaks.push_back({r, at, false});
  }
  std::stable_sort(breaks.begin(), breaks.end(), [](const Break& a, const Break& b) { return a.step < b.step; });
  return breaks;
}

void comparison_parts(const std::vector<RecordedRun>& runs, const Ranking& ranking, Outcome& out) {
  if (ranking.best == nullptr) return;
  const std::string spreads =
      ranking.seeds.is_known()
          ? "a spread: by how much " + seeds_text(ranking.seeds) + " differ, " +
                fixed_text(ranking.seeds.final_loss, 3) + " in final loss" +
                (std::isfinite(ranking.seeds.held_out)
                     ? " and " + fixed_text(ranking.seeds.held_out, 3) + " in held-out loss"
                     : "") +
                "; another seed has other batches, the held-out text is the same; above and below: by more than one "
                "spread in every loss that is known; not decided: in one of them"
          : "no recipe was recorded at two seeds: what a seed changes is not known";
  Table all{"against_best", "Every run against " + ranking.best->name, {text_column("run")}, {}, spreads, {}};
  Table pairs{"changes",
              "One change, and the losses with it less those without",
              {text_column("change"), text_column("run"), text_column("against")},
              {},
              spreads,
              {}};
  for (Table* t : {&all, &pairs})
    for (Column& c : difference_columns()) t->columns.push_back(std::move(c));
  for (const auto* some : {&ranking.good, &ranking.open, &ranking.worse})
    for (const RecordedRun* r : *some)
      if (r != ranking.best) add_difference(all, {r->name}, compare(*r, *ranking.best, ranking.seeds));
  Panel p;
  p.horizontal = true;
  p.x = {"held-out loss, more with the change", "spreads of seeds", AxisScale::linear, {}, {}, {}, {}};
  Series bars{"", Draw::bars, {}, {}, {}, {}, {}, blue};
  std::size_t shown = 0, beyond = 0;
  constexpr double most = 12;  // of the axis: what fails is far beyond
  for (const Change& change : changes) {
    const RecordedRun *run = find_run(runs, change.run), *with = find_run(runs, change.with);
    if (run == nullptr || with == nullptr || run->losses.empty() || with->losses.empty()) continue;
    const Compared c = compare(*run, *with, ranking.seeds);
    add_difference(pairs, {std::string(change.what), run->name, with->name}, c);
    if (!std::isfinite(c.held_out_in_spreads)) continue;
    ++shown, beyond += c.verdict == Difference::above || c.verdict == Difference::below;
    bars.x.push_back(static_cast<double>(p.y.categories.size()));
    bars.y.push_back(std::clamp(c.held_out_in_spreads, -most, most));
    p.y.categories.emplace_back(change.what);
  }
  if (!all.rows.empty()) out.tables.push_back(std::move(all));
  if (!pairs.rows.empty()) out.tables.push_back(std::move(pairs));
  if (shown == 0) return;
  p.series = {bars};
  p.marks = {{Along::x, 1, "", grey}, {Along::x, -1, "", grey}};
  out.plots.push_back({"changes",
                       std::to_string(beyond) + " of " + std::to_string(shown) +
                           " changes move both losses by more than another seed does",
                       seeds_text(ranking.seeds) + "; dashed: one spread; bars end at " + significant_text(most, 3),
                       {p},
                       1,
                       0,
                       ""});
}

// ---- Emulated FP8 against the GPU's own products

void fp8_check_parts(const std::vector<RecordedRun>& runs, Outcome& out) {
  const RecordedRun *emulated = find_run(runs, "fp8-current"), *real = find_run(runs, "fp8-scaled-mm");
  if (emulated == nullptr || real == nullptr) return;
  const std::vector<double> apart = spread_by_window({emulated, real});
  const SeedSpread seeds = spread_of_seeds(runs);
  const std::vector<double> spread = spread_by_window(seeds.runs);
  if (apart.empty()) return;
  Table t{
      "fp8_check",
      "Losses of FP8 emulated by narrow less those of torch._scaled_mm, means of 10 steps",
      {integer_column("from step"), fixed_column("emulated less the GPU's", "", 4), fixed_column("seeds apart", "", 4)},
      {},
      "the same seed and batches; seeds: of " +
          (seeds.is_known() ? seeds.runs.front()->recipe + ", at the same steps" : "no recipe: not recorded"),
      {}};
  Panel p;
  p.x.label = "training step";
  p.y = {"difference of losses", "nats", AxisScale::linear, 0.0, {}, {}, {}};
  Series ours{"emulated and the GPU's FP8", Draw::line_points, {}, {}, {}, {}, {}, green},
      theirs{"two seeds", Draw::line_points, {}, {}, {}, {}, {}, grey};
  const std::vector<double> a = window_means(*emulated), b = window_means(*real);
  double sum = 0, seed_sum = 0, most = 0;
  std::size_t both = 0;
  for (std::size_t i = 0; i < apart.size(); ++i) {
    const auto step = emulated->losses[i * window].step;
    const bool has_seeds = i < spread.size();
    t.add({step, known(a[i] - b[i]), has_seeds ? known(spread[i]) : Cell{}});
    ours.x.push_back(static_cast<double>(step)), ours.y.push_back(apart[i]);
    if (has_seeds) theirs.x.push_back(static_cast<double>(step)), theirs.y.push_back(spread[i]);
    sum += apart[i], most = std::fmax(most, apart[i]);
    if (has_seeds) seed_sum += spread[i], ++both;
  }
  const auto n = static_cast<double>(apart.size());
  std::string title = "Over " + std::to_string(apart.size() * window) +
                      " steps the loss of emulated FP8 differs from that of the GPU's by " + fixed_text(sum / n, 4) +
                      " on average";
  if (!std::isfinite(sum)) title = "A loss of emulated FP8 or of the GPU's is no number";
  else if (both == apart.size() && std::isfinite(seed_sum))
    title += sum < seed_sum ? ", another seed changes it by " + fixed_text(seed_sum / n, 4)
                            : ", no less than another seed: " + fixed_text(seed_sum / n, 4);
  else title += "; what another seed changes is not recorded";
  p.series = {ours};
  if (!theirs.x.empty()) p.series.push_back(theirs);
  out.tables.push_back(std::move(t));
  out.plots.push_back(
      {"fp8_check", title, emulated->name + " and " + real->name + ", means of 10 steps", {p}, 1, 0, ""});
}

// ---- Zeros among the gradients of weights, as they were recorded

namespace {

struct Counted {
  std::uint64_t zero = 0, count = 0;

  void add(const WatchedTensor& t) { zero += t.zero.total(), count += t.count; }
  double share() const { return count == 0 ? std::nan("") : static_cast<double>(zero) / static_cast<double>(count); }
};

// Of the last watched step in which all gradients of weights are finite, by layer.
struct Zeros {
  std::int64_t step = -1;
  std::map<std::string, std::map<std::string, Counted>> roles;

  const std::map<std::string, Counted>& weights() const { return roles.at("gradient"); }
};

Zeros zeros_of(const RecordedRun& r) {
  Zeros last, now;
  last.roles["gradient"];
  bool is_finite = true;
  const auto keep = [&] {
    if (is_finite && now.roles.contains("gradient")) last = now;
  };
  WatchedRun(r.folder).for_each_tensor([&](const WatchedTensor& t) {
    if (t.step != now.step) keep(), now = {t.step, {}}, is_finite = true;
    if (t.role == "gradient") is_finite = is_finite && t.finite() == t.count;
    if (t.is_gradient() || t.role == "activation") now.roles[t.role][layer_of(t.name)].add(t);
  });
  keep();
  return last;
}

}  // namespace

void zero_parts(const std::vector<RecordedRun>& runs, const RecordedRun& reference, const Ranking& ranking,
                Outcome& out) {
  std::vector<const RecordedRun*> shown = {&reference};
  for (const RecordedRun& r : runs)
    if (&r != &reference && ranking.is_among(ranking.worse, r)) shown.push_back(&r);
  if (shown.size() < 2) return;
  std::vector<Zeros> zeros;
  std::vector<std::string> layers;
  for (const RecordedRun* r : shown) {
    zeros.push_back(zeros_of(*r));
    for (const auto& [layer, counted] : zeros.back().weights()) layers.push_back(layer);
  }
  sort_layers(layers);
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  Table t{"zero_gradients",
          "Zeros among gradients and activations, as recorded",
          {text_column("run"), integer_column("step"), text_column("kind"), text_column("layer"),
           integer_column("values"), real_column("zero", "%", 4)},
          {},
          "at the last watched step whose weights' gradients are all finite; an embedding has zeros for words that a "
          "batch lacks",
          {}};
  Panel p;
  p.x.label = "layer", p.x.categories = layers;
  p.cells = {"zero", "%", false, 1};
  Series cells{"", Draw::cells};
  std::vector<std::string> dead;  // runs with layers in which every second gradient is zero and is not in the reference
  constexpr double half = 0.5;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    for (const auto& [role, word] : {std::pair{"gradient", "gradients of weights"},
                                     {"activation_gradient", "gradients of activations"},
                                     {"activation", "activations"}})
      if (const auto of = zeros[i].roles.find(role); of != zeros[i].roles.end())
        for (const auto& [layer, counted] : of->second)
          t.add({shown[i]->name, zeros[i].step, std::string(word), layer, static_cast<std::int64_t>(counted.count),
                 known(100 * counted.share())});
    std::size_t count = 0;
    p.y.categories.push_back(shown[i]->name);
    for (std::size_t x = 0; x < layers.size(); ++x) {
      const auto found = zeros[i].weights().find(layers[x]), before = zeros[0].weights().find(layers[x]);
      const double share = found == zeros[i].weights().end() ? std::nan("") : found->second.share();
      cells.x.push_back(static_cast<double>(x)), cells.y.push_back(static_cast<double>(i));
      cells.value.push_back(100 * share);
      count += share >= half && before != zeros[0].weights().end() && before->second.share() < half;
    }
    if (count > 0) dead.push_back(shown[i]->name + " (" + std::to_string(count) + ")");
  }
  if (layers.empty()) return;
  p.series = {cells};
  const std::string title =
      dead.empty()
          ? "In no run that ends higher are half of a layer's weight gradients zero that are not in " + reference.name
          : "Half of the weight gradients or more are zero in layers of " + list_of(dead) + ", of " +
                std::to_string(layers.size()) + " layers, and not in " + reference.name;
  out.tables.push_back(std::move(t));
  out.plots.push_back({"zero_gradients",
                       title,
                       "as recorded; runs that end above the best, and " + reference.name,
                       {p},
                       1,
                       40.0 * static_cast<double>(shown.size()) + 160,
                       ""});
}

}  // namespace analysis::of_large_run
