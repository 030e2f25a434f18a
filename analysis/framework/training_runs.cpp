#include "analysis/framework/training_runs.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

namespace analysis {

using narrow::train::RunRequest;
using narrow::train::RunResult;
using narrow::train::StepRow;
using narrow::train::Task;

std::string RunPlan::key() const {
  std::string text = std::string(narrow::train::name_of(task)) + " " + recipe + " " + loss_scaler + " x" +
                     narrow::report::significant_text(rate, 17);
  for (const std::uint64_t n : {seed, steps, std::uint64_t{layers}, std::uint64_t{width}, std::uint64_t{context},
                                std::uint64_t{batch}, instrument_every})
    text += " " + std::to_string(n);
  return text;
}

RunPlan small_lm(std::string recipe, std::uint64_t seed, std::uint64_t steps) {
  return {.task = Task::lm,
          .recipe = std::move(recipe),
          .seed = seed,
          .steps = steps,
          .layers = 1,
          .width = 64,
          .context = 64,
          .batch = 4};
}

namespace {

// Opened once for all runs of a task with that context.
std::shared_ptr<const narrow::train::Dataset> dataset_of(const RunRequest& r) {
  static std::map<std::pair<Task, std::size_t>, std::shared_ptr<const narrow::train::Dataset>> opened;
  auto& data = opened[{r.task, r.shape->context}];
  if (!data) data = narrow::train::open_dataset(r.task, *r.shape);
  return data;
}

}  // namespace

RunRequest request_of(const RunPlan& plan) {
  const narrow::train::TaskSettings usual = narrow::train::settings_of(plan.task);
  RunRequest r;
  r.task = plan.task, r.seed = plan.seed, r.instrument_every = plan.instrument_every;
  r.recipe = narrow::train::require_recipe(plan.recipe);
  if (!plan.loss_scaler.empty()) r.recipe.loss_scaler = narrow::train::checked_loss_scaler(plan.loss_scaler);
  if (plan.steps != 0) r.steps = plan.steps;
  if (plan.batch != 0) r.batch = plan.batch;
  r.shape = usual.shape, r.optimiser = usual.optimiser;
  r.optimiser->learning_rate *= plan.rate;
  if (plan.layers != 0) r.shape->layers = plan.layers;
  if (plan.width != 0) r.shape->width = plan.width;
  if (plan.context != 0) r.shape->context = plan.context;
  r.data = dataset_of(r);
  return r;
}

const RunResult& training_run(const RunPlan& plan, Progress& progress, double from, double to) {
  static std::map<std::string, std::unique_ptr<RunResult>> store;
  std::unique_ptr<RunResult>& slot = store[plan.key()];
  if (!slot) {
    const RunRequest request = request_of(plan);
    const double steps = static_cast<double>(request.steps.value_or(narrow::train::settings_of(plan.task).steps));
    slot = std::make_unique<RunResult>(narrow::train::run_training(request, [&](const StepRow& row) {
      progress.at(from + (to - from) * static_cast<double>(row.step + 1) / steps, plan.recipe);
      return true;
    }));
  }
  progress.at(to, plan.recipe);
  return *slot;
}

std::vector<const RunResult*> runs_over_seeds(RunPlan plan, std::uint64_t count, Progress& progress, double from,
                                              double to) {
  std::vector<const RunResult*> runs;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto share = [&](std::uint64_t n) {
      return from + (to - from) * static_cast<double>(n) / static_cast<double>(count);
    };
    plan.seed = i + 1;
    runs.push_back(&training_run(plan, progress, share(i), share(i + 1)));
  }
  return runs;
}

LossSpread spread_of(const std::vector<const RunResult*>& runs) {
  LossSpread s;
  s.runs = runs.size();
  const double nan = narrow::train::not_measured;
  s.mean = 0, s.low = nan, s.high = nan;
  for (const RunResult* run : runs) {
    if (!std::isfinite(run->final_loss)) {
      ++s.broke;
      continue;
    }
    s.mean += run->final_loss;
    s.low = std::fmin(s.low, run->final_loss), s.high = std::fmax(s.high, run->final_loss);
  }
  s.mean = s.broke == s.runs ? nan : s.mean / static_cast<double>(s.runs - s.broke);
  return s;
}

bool is_as_good(const LossSpread& x, const LossSpread& reference) {
  constexpr double least_spread = 0.02;
  const double width = std::fmax(reference.high - reference.low, least_spread * reference.mean);
  return x.broke == 0 && x.mean <= reference.high + width;
}

Curve loss_curve(const RunResult& run, std::size_t window) {
  Curve c;
  for (std::size_t i = 0; i < run.rows.size(); ++i) {
    if (i + 1 < window) continue;
    double sum = 0;  // of this window alone: a step of Inf or NaN spoils the windows with it and no others
    for (std::size_t k = i + 1 - window; k <= i; ++k) sum += run.rows[k].loss;
    c.x.push_back(static_cast<double>(run.rows[i].step));
    c.y.push_back(sum / static_cast<double>(window));
  }
  return c;
}

}  // namespace analysis
