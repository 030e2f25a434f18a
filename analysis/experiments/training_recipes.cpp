// Which recipes train as well as FP32, and which of the operations that they keep wide must stay so?
#include <algorithm>
#include <cmath>

#include "analysis/framework/experiment.hpp"
#include "analysis/framework/shares.hpp"
#include "analysis/framework/training_runs.hpp"
#include "analysis/recordings/recorded_runs.hpp"
#include "narrow/text/split.hpp"

namespace analysis::of_training_recipes {
namespace {

using namespace narrow;
using enum PlotColour;
using train::RunResult;

struct Tried {
  std::string recipe;
  std::vector<const RunResult*> runs;
  LossSpread spread;
};

std::vector<Tried> try_all(const RunPlan& model, const std::vector<std::string>& recipes, std::uint64_t seeds,
                           Progress& progress, double from, double to) {
  std::vector<RunPlan> plans;
  for (const std::string& recipe : recipes) {
    RunPlan plan = model;
    plan.recipe = recipe;
    for (RunPlan& p : over_seeds(plan, seeds)) plans.push_back(std::move(p));
  }
  const std::vector<const RunResult*> runs = training_runs(plans, progress, from, to);
  std::vector<Tried> all;
  for (std::size_t i = 0; i < recipes.size(); ++i) {
    const auto first = runs.begin() + static_cast<std::ptrdiff_t>(i * seeds);
    Tried t{recipes[i], {first, first + static_cast<std::ptrdiff_t>(seeds)}, {}};
    t.spread = spread_of(t.runs);
    all.push_back(std::move(t));
  }
  return all;
}

Table table_of(const std::string& name, const std::string& title, const std::vector<Tried>& all, bool has_accuracy) {
  Table t{
      name,
      title,
      {text_column("recipe"), real_column("final loss", "", 4), real_column("lowest", "", 4),
       real_column("highest", "", 4), real_column("best", "", 4),
       fixed_column(has_accuracy ? "held out, right" : "held out, loss", has_accuracy ? "%" : "", has_accuracy ? 1 : 3),
       integer_column("skipped steps"), text_column("as good as fp32"), text_column("first Inf or NaN")},
      {},
      "final loss: mean of the last 20 steps; mean, lowest and highest over the seeds; as good as fp32: no run broke, "
      "and the mean is above FP32's highest by no more than FP32's spread over the seeds, or 2 % of its loss where "
      "that "
      "is more",
      {}};
  for (const Tried& tried : all) {
    double best = train::not_measured, held = 0;
    std::size_t measured = 0;
    std::uint64_t skipped = 0;
    std::string first = "";
    for (const RunResult* r : tried.runs) {
      best = std::fmin(best, r->best_loss);
      skipped += r->skipped;
      const std::optional<double>& value = has_accuracy ? r->held_out_accuracy : r->held_out_loss;
      if (value) held += has_accuracy ? 100 * *value : *value, ++measured;
      if (r->first_nonfinite && first.empty()) first = r->first_nonfinite->text();
    }
    t.add({tried.recipe, tried.spread.mean, tried.spread.low, tried.spread.high, best,
           measured == 0 ? Cell{} : Cell{held / static_cast<double>(measured)}, static_cast<std::int64_t>(skipped),
           std::string(is_as_good(tried.spread, all.front().spread) ? "yes"
                       : tried.spread.broke == tried.spread.runs    ? "broke"
                                                                    : "no"),
           first.empty() ? Cell{} : Cell{first}});
  }
  return t;
}

// Final losses as points, single seeds pale around their mean; FP32 as a line through all.
Panel panel_of(const std::string& title, const std::vector<Tried>& all) {
  Panel p;
  p.title = title;
  p.x = {"final loss", "", AxisScale::linear, {}, {}, {}, {}};
  const LossSpread& reference = all.front().spread;
  Series good{"as good as fp32", Draw::points, {}, {}, {}, {}, {}, blue};
  Series bad{"worse", Draw::points, {}, {}, {}, {}, {}, vermilion};
  Series single{"single seeds", Draw::points, {}, {}, {}, {}, {}, grey, false, true};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto place = static_cast<double>(i);
    p.y.categories.push_back(all[i].recipe + (all[i].spread.broke == all[i].spread.runs ? " (broke)" : ""));
    Series& s = is_as_good(all[i].spread, reference) ? good : bad;
    s.x.push_back(all[i].spread.mean), s.y.push_back(place);
    for (const RunResult* r : all[i].runs)
      if (std::isfinite(r->final_loss) && all[i].runs.size() > 1)
        single.x.push_back(r->final_loss), single.y.push_back(place);
  }
  p.marks = {{Along::x, reference.mean, "", ink}};
  if (!single.x.empty()) p.series.push_back(single);
  p.series.push_back(good);
  if (!bad.x.empty()) p.series.push_back(bad);
  return p;
}

Panel curves_of(const std::string& title, const std::vector<Tried>& all,
                const std::vector<std::pair<std::string, PlotColour>>& chosen) {
  Panel p;
  p.title = title;
  p.x = {"step", "", AxisScale::linear, {}, {}, {}, {}};
  const std::size_t window = std::min<std::size_t>(20, all.front().runs.front()->rows.size());
  p.y = {"loss, mean of " + std::to_string(window) + " steps", "", AxisScale::linear, {}, {}, {}, {}};
  for (const auto& [recipe, colour] : chosen)
    for (const Tried& t : all)
      if (t.recipe == recipe) {
        const Curve c = loss_curve(*t.runs.front(), window);
        if (c.x.empty()) continue;  // it broke before
        p.series.push_back({recipe, Draw::line, c.x, c.y, {}, {}, {}, colour, recipe == "fp32"});
      }
  return p;
}

// More runs that broke cost more, then a higher loss.
bool costs_more(const Tried& x, const Tried& y) {
  return x.spread.broke != y.spread.broke ? x.spread.broke > y.spread.broke : x.spread.mean > y.spread.mean;
}

std::size_t count_good(const std::vector<Tried>& all) {
  std::size_t good = 0;
  for (const Tried& t : all) good += t.recipe != "fp32" && is_as_good(t.spread, all.front().spread) ? 1 : 0;
  return good;
}

std::string count_text_of(const std::vector<Tried>& all) {
  return std::to_string(count_good(all)) + " of " + std::to_string(all.size() - 1);
}

std::string finding_of(const std::vector<Tried>& digits, const std::vector<Tried>& keepers) {
  const LossSpread& reference = digits.front().spread;
  std::string text = (digits.size() == 1 ? "FP32 alone was tried on digits"
                                         : count_text_of(digits) + " recipes train digits as well as FP32") +
                     " (loss " + significant_text(reference.mean, 3) + ")";
  std::string broken;
  const Tried* worst = nullptr;  // of those that came to an end
  for (const Tried& t : digits) {
    if (t.recipe == "fp32") continue;
    if (t.spread.broke > 0) broken += (broken.empty() ? "" : ", ") + t.recipe;
    else if (worst == nullptr || costs_more(t, *worst)) worst = &t;
  }
  if (!broken.empty()) text += "; Inf or NaN ends runs of " + broken;
  if (worst != nullptr && !is_as_good(worst->spread, reference))
    text += std::string("; the worst") + (broken.empty() ? ", " : " of the others, ") + worst->recipe + ", ends at " +
            significant_text(worst->spread.mean, 3);
  const Tried *base = nullptr, *keeper = nullptr;  // the operation whose move costs most
  for (const Tried& t : keepers) {
    if (t.recipe == "fp8-current") base = &t;
    if (t.recipe.starts_with("fp8-current-") && (keeper == nullptr || costs_more(t, *keeper))) keeper = &t;
  }
  if (base != nullptr && keeper != nullptr) {
    const auto ends = [](const Tried& t) {
      return t.spread.broke > 0 ? std::string("Inf or NaN") : significant_text(t.spread.mean, 3);
    };
    const bool costs = !is_as_good(keeper->spread, base->spread);
    text += (costs ? "; of FP8's keepers " + keeper->recipe.substr(12) + " costs most when it is moved (loss "
                   : "; moving one of FP8's keepers costs nothing that is measured here (" + keeper->recipe.substr(12) +
                         ": loss ") +
            ends(*keeper) + " instead of " + ends(*base) + ")";
  }
  return text + ".";
}

// What the same recipes do to a model of real size.
std::string at_size() {
  const std::vector<RecordedRun> runs = recorded_runs();
  const RecordedRun* reference = find_run(runs, "bf16-amp");
  if (reference == nullptr || std::isnan(reference->final_loss())) return "";
  const SeedSpread seeds = spread_of_seeds(runs);
  const double as_good = seeds.is_known() ? seeds.final_loss : reference->final_loss() * as_good_share;
  std::vector<std::string> worse;
  std::size_t others = 0;
  for (const RecordedRun& r : runs) {
    if (&r == reference || !r.is_usual() || r.losses.size() != reference->losses.size()) continue;
    ++others;
    if (r.final_loss() <= reference->final_loss() + as_good) continue;
    worse.push_back(r.recipe + " (" + (std::isnan(r.final_loss()) ? "NaN" : fixed_text(r.final_loss(), 2)) + ")");
  }
  if (others == 0) return "";
  return "; of " + std::to_string(others) + " recorded runs of a GPT " + reference->size_text() + " " +
         (worse.empty() ? "all" : std::to_string(others - worse.size())) + " end no more than " +
         (seeds.is_known() ? fixed_text(as_good, 2) + ", what another seed changes," : std::string("1 %")) +
         " above BF16 autocast's loss (" + fixed_text(reference->final_loss(), 2) + ")" + (worse.empty() ? "" : ", not " + list_of(worse));
}

Outcome run(const Parameters& parameters, Progress& progress) {
  const auto seeds = static_cast<std::uint64_t>(parameters.integer("seeds"));
  const auto steps = static_cast<std::uint64_t>(parameters.integer("steps"));
  const auto lm_steps = static_cast<std::uint64_t>(parameters.integer("lm_steps"));
  std::vector<std::string> recipes = narrow::words_of<std::string>(parameters.text("recipes"), "+");
  if (recipes.empty() || recipes.front() != "fp32") recipes.insert(recipes.begin(), "fp32");
  for (const std::string& name : recipes) (void)train::require_recipe(name);

  const std::vector<Tried> digits = try_all({.steps = steps}, recipes, seeds, progress, 0, 0.45);
  const std::vector<std::string> ablations = {"fp32",
                                              "fp16-amp",
                                              "fp16-amp-softmax",
                                              "fp16-amp-norm",
                                              "fp16-amp-residual",
                                              "fp16-amp-logits",
                                              "fp8-current",
                                              "fp8-current-softmax",
                                              "fp8-current-norm",
                                              "fp8-current-residual",
                                              "fp8-current-logits"};
  const std::vector<Tried> keepers =
      try_all(small_lm("fp32", 1, lm_steps), ablations,
              std::min<std::uint64_t>(seeds, parameters.by_effort(1u, 2u, 5u)), progress, 0.45, 1);

  Outcome out;
  out.data = "handwritten digits and texts that come with narrow, trained here";
  for (const std::string& name : recipes)
    for (const train::OperationPolicy& p : train::require_recipe(name).policy.operations)
      for (const train::ProductPolicy* product : {&p.forward, &p.dgrad, &p.wgrad})
        if (product->model != nullptr) out.evidence.push_back(basis_of(*product->model));
  out.tables = {table_of("digits", "Handwritten digits, an MLP: final loss by recipe", digits, true),
                table_of("keepers", "Byte-level language model: what happens when one more operation becomes narrow",
                         keepers, false)};
  Plot losses{
      "final_loss",
      count_text_of(digits) + " recipes train digits as well as FP32",
      "Left: all recipes; right: one operation after the other that recipes keep wide made narrow; the line is FP32",
      {panel_of("digits, " + std::to_string(steps) + " steps", digits),
       panel_of("small language model, " + std::to_string(lm_steps) + " steps", keepers)},
      2,
      0,
      ""};
  Plot curves{"curves",
              "As low as FP32 in the end: " + count_text_of(digits) + " recipes on digits, " + count_text_of(keepers) +
                  " on text",
              "Seed 1",
              {curves_of("digits", digits,
                         {{"fp32", ink},
                          {"bf16-amp", orange},
                          {"fp16-amp", blue},
                          {"fp16-amp-noscale", sky},
                          {"fp8-current", green},
                          {"fp8-noscale", vermilion}}),
               curves_of("small language model", keepers,
                         {{"fp32", ink},
                          {"fp16-amp", blue},
                          {"fp8-current", green},
                          {"fp8-current-residual", purple},
                          {"fp8-current-logits", vermilion}})},
              2,
              0,
              ""};
  out.plots = {losses, curves};
  out.finding = finding_of(digits, keepers);
  if (const std::string large = at_size(); !large.empty()) {
    out.finding.insert(out.finding.size() - 1, large);
    out.data.text += "; and the large runs";
    out.evidence.push_back(recorded_text("").basis);
  }
  return out;
}

const Register entered([]() -> Experiment {
  return {"training_recipes",
          "Which recipes train as well as FP32, and what must stay wide?",
          10,
          {text_parameter("recipes",
                          "fp32+tf32+bf16-amp+fp16-amp+fp16-amp-noscale+fp16-pure+bf16-pure+bf16-pure-stochastic+"
                          "bf16-pure-kahan+fp8-current+fp8-delayed+fp8-block+mxfp8+fp8-noscale+int8",
                          "recipes of `narrow train --list-recipes` with + between"),
           integer_parameter("steps", {150, 300, 600}, 20, 1e6, "training steps on digits"),
           integer_parameter("lm_steps", {60, 200, 600}, 2, 1e6, "training steps of the language model"),
           integer_parameter("seeds", {2, 3, 5}, 1, 100, "runs a recipe")},
          run};
});

}  // namespace
}  // namespace analysis::of_training_recipes
