// Training runs that several experiments ask for, made once: a store in memory, keyed by all that decides the bits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analysis/framework/experiment.hpp"
#include "narrow/train/run/trainer.hpp"

namespace analysis {

// What is 0 or empty is the task's own.
struct RunPlan {
  narrow::train::Task task = narrow::train::Task::digits;
  std::string recipe = "fp32";
  std::uint64_t seed = 1;
  std::uint64_t steps = 0;
  double rate = 1;               // factor of the learning rate
  std::string loss_scaler = "";  // instead of the recipe's: "torch:init=2^30", "none"
  // lm: a smaller model and batch, so that a run takes seconds
  std::size_t layers = 0, width = 0, context = 0, batch = 0;
  std::uint64_t instrument_every = 0;

  std::string key() const;
};

// The language model that experiments train when they cannot wait: one layer of width 64, 64 bytes of context.
RunPlan small_lm(std::string recipe, std::uint64_t seed, std::uint64_t steps);

// As a request, with the data, which are opened once for all runs of a task.
narrow::train::RunRequest request_of(const RunPlan& plan);

// Where it is set, runs that are missing are made by it: by processes that share them.
using MakeRuns = std::function<std::vector<narrow::train::RunResult>(const std::vector<narrow::train::RunRequest>&)>;
void make_runs_by(MakeRuns make);

// They stay valid as long as the program runs. progress moves from `from` to `to`.
std::vector<const narrow::train::RunResult*> training_runs(const std::vector<RunPlan>& plans, Progress& progress,
                                                           double from = 0, double to = 1);
const narrow::train::RunResult& training_run(const RunPlan& plan, Progress& progress, double from = 0, double to = 1);

// The same recipe with several seeds: 1, 2, .. count.
std::vector<RunPlan> over_seeds(RunPlan plan, std::uint64_t count);

// Final losses over seeds. A run that broke has none: mean and spread are of the others.
struct LossSpread {
  std::size_t runs = 0, broke = 0;
  double mean = 0, low = 0, high = 0;  // NaN when all broke
};
LossSpread spread_of(const std::vector<const narrow::train::RunResult*>& runs);

// No run broke, and the mean is not above the reference's worst seed by more than the reference's own spread, or by 2 %
// of its loss where that is more: one seed has no spread.
bool is_as_good(const LossSpread& x, const LossSpread& reference);

// The loss smoothed over `window` steps: x is the step, y the mean of the window that ends there.
struct Curve {
  std::vector<double> x, y;
};
Curve loss_curve(const narrow::train::RunResult& run, std::size_t window);

}  // namespace analysis
