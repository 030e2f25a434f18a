#include "analysis/framework/training_runs.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>

#include "narrow/base/parallel.hpp"

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

MakeRuns make_runs;

}  // namespace

void make_runs_by(MakeRuns make) { make_runs = std::move(make); }

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

// Runs that are missing are made side by side where there are enough of them for all threads, else one after the other on
// all threads: small models leave threads waiting for each other. Neither changes a bit.
std::vector<const RunResult*> training_runs(const std::vector<RunPlan>& plans, Progress& progress, double from, double to) {
  static std::map<std::string, std::unique_ptr<RunResult>> store;
  struct Missing {
    std::string recipe;
    RunRequest request;
    std::unique_ptr<RunResult>* slot;
  };
  std::vector<Missing> missing;
  std::vector<const std::unique_ptr<RunResult>*> slots;
  double steps = 0, done = 0;
  for (const RunPlan& plan : plans) {
    const auto [place, is_new] = store.try_emplace(plan.key());
    slots.push_back(&place->second);
    const bool asked = std::any_of(missing.begin(), missing.end(), [&](const Missing& m) { return m.slot == &place->second; });
    if (place->second || asked) continue;
    missing.push_back({plan.recipe, request_of(plan), &place->second});
    const auto& request = missing.back().request;
    steps += static_cast<double>(request.steps.value_or(narrow::train::settings_of(plan.task).steps));
  }
  if (make_runs && !missing.empty()) {
    std::vector<RunRequest> requests;
    for (const Missing& m : missing) requests.push_back(m.request);
    std::vector<RunResult> made = make_runs(requests);
    for (std::size_t i = 0; i < missing.size(); ++i) *missing[i].slot = std::make_unique<RunResult>(std::move(made[i]));
    missing.clear();
  }
  std::mutex one_at_a_time;
  const std::size_t threads = static_cast<std::size_t>(narrow::default_threads());
  narrow::parallel_parts(missing.size(), missing.size() < threads ? std::max<std::size_t>(missing.size(), 1) : 1, 0, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      *missing[i].slot = std::make_unique<RunResult>(narrow::train::run_training(missing[i].request, [&](const StepRow&) {
        const std::lock_guard<std::mutex> hold(one_at_a_time);
        progress.at(from + (to - from) * ++done / steps, missing[i].recipe);
        return true;
      }));
  });
  if (!plans.empty()) progress.at(to, plans.back().recipe);
  std::vector<const RunResult*> runs;
  for (const auto* slot : slots) runs.push_back(slot->get());
  return runs;
}

const RunResult& training_run(const RunPlan& plan, Progress& progress, double from, double to) {
  return *training_runs({plan}, progress, from, to).front();
}

std::vector<RunPlan> over_seeds(RunPlan plan, std::uint64_t count) {
  std::vector<RunPlan> plans;
  for (plan.seed = 1; plan.seed <= count; ++plan.seed) plans.push_back(plan);
  return plans;
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
