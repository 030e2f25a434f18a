#include "training/train_text.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "cli/json_value.hpp"
#include "cli/number_text.hpp"
#include "cli/terminal.hpp"
#include "narrow/scale/scaler.hpp"

namespace app {
namespace {

namespace train = narrow::train;
using Runs = std::span<const train::RunResult>;

// Runs of one recipe follow each other.
std::vector<Runs> by_recipe(const RunResults& results) {
  std::vector<Runs> groups;
  for (std::size_t begin = 0; begin < results.size();) {
    std::size_t end = begin;
    while (end < results.size() && results[end].recipe == results[begin].recipe) ++end;
    groups.push_back(Runs(results).subspan(begin, end - begin));
    begin = end;
  }
  return groups;
}

// "0.1234", or "0.1234 +- 0.0021" (half the distance of the extremes) over several seeds; "-" where there is none,
// "nan" where a run that did not break has no other.
std::string spread_text(Runs runs, int decimals, const std::function<double(const train::RunResult&)>& value) {
  double least = value(runs[0]), most = least, sum = 0;
  for (const train::RunResult& run : runs) {
    const double x = value(run);
    if (std::isnan(x)) return run.broke || run.was_stopped ? "-" : "nan";
    least = std::min(least, x);
    most = std::max(most, x);
    sum += x;
  }
  const std::string mean = decimal_text(sum / static_cast<double>(runs.size()), decimals);
  return runs.size() == 1 ? mean : mean + " +- " + decimal_text((most - least) / 2, decimals);
}

double value_or_nan(const std::optional<double>& x) { return x.value_or(train::not_measured); }

std::string remarks(Runs runs) {
  std::string text;
  const auto say = [&](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  for (const train::RunResult& run : runs) {
    const std::string seed = runs.size() > 1 ? "seed " + std::to_string(run.seed) + " " : "";
    if (run.first_nonfinite) say(seed + "Inf or NaN at " + run.first_nonfinite->text());
    if (run.broke) say(seed + "broke at step " + std::to_string(*run.broke));
    if (run.was_stopped)
      say(seed + "stopped after " + std::to_string(run.rows.size()) + (run.rows.size() == 1 ? " step" : " steps"));
  }
  return text.empty() ? "-" : text;
}

// "3", or "2 to 4" over several seeds that differ; "-" without a value.
std::string range_text(std::span<const double> values, std::string (*text)(double)) {
  if (values.empty()) return "-";
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *least == *most ? text(*least) : text(*least) + " to " + text(*most);
}
std::string skipped_text(Runs runs) {
  std::vector<double> counts;
  for (const train::RunResult& run : runs) counts.push_back(static_cast<double>(run.skipped));
  return range_text(counts, [](double count) { return decimal_text(count, 0); });
}
std::string last_scale(Runs runs) {
  std::vector<double> scales;
  for (const train::RunResult& run : runs)
    if (!run.rows.empty()) scales.push_back(static_cast<double>(run.rows.back().scale));
  return range_text(scales, narrow::detail::scale_text);  // 65536 reads better as 2^16
}

std::string model_text(const train::ModelShape& s) {
  if (s.kind == train::ModelKind::mlp) {
    std::string text = "MLP " + std::to_string(s.inputs);
    for (const std::size_t n : s.hidden) text += "-" + std::to_string(n);
    return text + "-" + std::to_string(s.classes);
  }
  if (s.kind == train::ModelKind::cnn) {
    std::string text = "CNN of " + std::to_string(s.image) + "x" + std::to_string(s.image) + " images, channels 1";
    for (const std::size_t n : s.hidden) text += "-" + std::to_string(n);
    return text;
  }
  std::string sizes = std::to_string(s.layers) + " layers, width " + std::to_string(s.width) + ", " +
                      std::to_string(s.heads) + " heads";
  if (s.rms_norm) sizes += ", RMSNorm";
  if (s.qk_norm) sizes += ", QK-norm";
  if (s.soft_cap > 0) sizes += ", soft cap " + digits_text(s.soft_cap, 6);
  if (s.kind == train::ModelKind::vision)
    return "vision transformer, " + sizes + ", patches of " + std::to_string(s.patch);
  return "transformer, " + sizes + ", context " + std::to_string(s.context);
}

// ", clipped at 1 before unscaling; cosine schedule, warmup 20, counting calls": what is not as usual.
std::string order_text(const train::RunRequest& r) {
  std::string text;
  if (r.optimiser->clip > 0)
    text += ", clipped at " + digits_text(r.optimiser->clip, 6) +
            (r.clip_order == train::ClipOrder::before_unscale ? " before unscaling" : "");
  const train::Schedule& s = r.schedule;
  if (s.kind == train::ScheduleKind::constant && s.warmup == 0) return text;
  text += ", " + std::string(train::schedule_names[static_cast<std::size_t>(s.kind)]) + " learning rate";
  if (s.warmup > 0) text += " after a warmup of " + std::to_string(s.warmup);
  return text + (s.counts == train::ScheduleCounts::calls ? " counting calls" : " counting steps taken");
}

}  // namespace

std::string train_heading(const train::RunRequest& r, std::size_t parameters) {
  std::string text = std::string(name_of(r.task)) + ": " + model_text(*r.shape) + ", " + std::to_string(parameters) +
                     " parameters, batch " + std::to_string(*r.batch);
  if (r.ranks > 1) text += " on " + std::to_string(r.ranks) + " ranks (" + std::string(name_of(r.order)) + ")";
  if (r.micro_batches > 1) text += " in " + std::to_string(r.micro_batches) + " micro-batches";
  if (r.micro_batches > 1 && r.accumulate == train::AccumulateAs::sum) text += " that are summed";
  return text + ", " + std::to_string(*r.steps) + (*r.steps == 1 ? " step of " : " steps of ") +
         (r.optimiser->kind == train::OptimiserKind::adamw ? "AdamW" : "SGD") + order_text(r) + "\n\n";
}

TextTable train_table(const RunResults& results) {
  constexpr Align l = Align::left, r = Align::right;
  const bool has_classes =
      std::any_of(results.begin(), results.end(), [](const auto& run) { return run.held_out_accuracy.has_value(); });
  TextTable table{{"recipe", "final loss", "best loss", "held out"}, {l, r, r, r}, {}};
  if (has_classes) table.header.push_back("right %"), table.align.push_back(r);
  for (const char* title : {"skipped", "last scale"}) table.header.push_back(title), table.align.push_back(r);
  table.header.push_back("where it broke");
  table.align.push_back(l);
  for (const Runs runs : by_recipe(results)) {
    std::vector<TextCell> row{runs[0].recipe, spread_text(runs, 4, [](const auto& run) { return run.final_loss; }),
                          spread_text(runs, 4, [](const auto& run) { return run.best_loss; }),
                          spread_text(runs, 4, [](const auto& run) { return value_or_nan(run.held_out_loss); })};
    if (has_classes)
      row.emplace_back(spread_text(runs, 1, [](const auto& run) { return 100 * value_or_nan(run.held_out_accuracy); }));
    row.emplace_back(skipped_text(runs));
    row.emplace_back(last_scale(runs));
    row.emplace_back(remarks(runs));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string train_json(const RunResults& results) {
  const auto number = [](const std::optional<double>& x) { return x ? json_number(*x) : Json(); };
  Json list = Json::array();
  for (const train::RunResult& run : results) {
    Json row = Json::object();
    row["recipe"] = run.recipe;
    row["task"] = run.task;
    row["seed"] = run.seed;
    row["steps"] = run.rows.size();
    row["final_loss"] = json_number(run.final_loss);
    row["best_loss"] = json_number(run.best_loss);
    row["skipped"] = run.skipped;
    row["first_nonfinite"] = run.first_nonfinite ? Json(run.first_nonfinite->text()) : Json();
    row["broke"] = run.broke ? Json(*run.broke) : Json();
    row["held_out_loss"] = number(run.held_out_loss);
    row["held_out_accuracy"] = number(run.held_out_accuracy);
    row["last_scale"] = run.rows.empty() ? Json() : json_number(static_cast<double>(run.rows.back().scale));
    list.push_back(std::move(row));
  }
  return json_text(list);
}

TextTable recipe_list() {
  TextTable table{{"recipe", "loss scale", "what"}, {Align::left, Align::left, Align::left}, {}};
  for (const train::RecipeRow& row : train::recipe_table())
    table.rows.push_back({std::string(row.name), std::string(row.loss_scaler), std::string(row.what)});
  return table;
}

std::string recipe_list_json() {
  Json list = Json::array();
  for (const train::RecipeRow& row : train::recipe_table())
    list.push_back({{"name", row.name}, {"loss_scaler", row.loss_scaler}, {"what", row.what}});
  return json_text(list);
}

}  // namespace app
