// One training run as a function of its request: the same request gives the same bits, for any number of threads.
// Writes no files and prints nothing.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "narrow/scale/policy_table.hpp"
#include "narrow/train/operations/reduce.hpp"
#include "narrow/train/policy/recipe.hpp"
#include "narrow/train/run/gradients.hpp"
#include "narrow/train/run/instrument.hpp"
#include "narrow/train/run/schedule.hpp"
#include "narrow/train/run/task.hpp"

namespace narrow::train {

// Throws Error when a batch does not divide into so many ranks with so many micro-batches.
void check_batch(std::size_t batch, std::size_t ranks, std::size_t micro_batches);

// What is not given is the task's own.
struct RunRequest {
  Task task = Task::digits;
  Recipe recipe = require_recipe("fp32");
  std::uint64_t seed = 1;  // of the parameters, the batches and stochastic rounding
  std::optional<std::uint64_t> steps;
  std::optional<std::size_t> batch;
  std::optional<ModelShape> shape;
  std::optional<OptimiserSettings> optimiser;
  std::string text;  // lm: a file; empty: the text in the library
  std::size_t micro_batches = 1, ranks = 1;
  ReduceOrder order = ReduceOrder::ring;
  AccumulateAs accumulate = AccumulateAs::mean;
  ClipOrder clip_order = ClipOrder::after_unscale;
  Schedule schedule;                   // a length of 0 is that of the run
  std::uint64_t instrument_every = 0;  // steps 0, N, 2 N, ...; 0: never
  int threads = 0;
  std::shared_ptr<const Dataset> data;  // opened already, to be shared by several runs; else opened by the task
};

inline constexpr double not_measured = std::numeric_limits<double>::quiet_NaN();

struct StepRow {
  std::uint64_t step = 0;
  double loss = 0;           // mean over the batch, before the update
  float scale = 1;           // of the loss, in this step
  bool found_inf = false;    // a gradient was Inf or NaN
  bool skipped = false;      // so it was, and the scaler lets such steps out
  double gradient_norm = 0;  // unscaled, before clipping
  double update_ratio = 0;   // norm of the change / norm of the parameters; 0 when skipped
  double learning_rate = 0;  // by the schedule, whether the step was taken or not
  // Steps that were taken, where clipping is asked for, else NaN: the norm that was held against the limit (that of the
  // scaled gradients when they are clipped before unscaling), and what it made the gradients be multiplied by.
  double clipped_norm = not_measured, clip_factor = not_measured;
  // Instrumented steps only, else NaN.
  double underflow_share = not_measured, overflow_share = not_measured, largest_logit = not_measured;
};

struct RunResult {
  std::string recipe, task;
  std::uint64_t seed = 0, steps = 0;  // steps: as asked; rows may be fewer
  std::vector<StepRow> rows;
  std::vector<StepReport> reports;  // of instrumented steps
  std::uint64_t skipped = 0;
  double final_loss = 0;                          // mean of the last 20 losses; NaN when the run broke
  double best_loss = 0;                           // the smallest mean of 20 losses in a row; NaN when there is none
  std::optional<FirstNonFinite> first_nonfinite;  // also when the step was skipped and the run went on
  std::optional<std::uint64_t>
      broke;  // the step that ended the run: a parameter became Inf or NaN, or the scaler gave up
  std::optional<double> held_out_loss,
      held_out_accuracy;  // after the last step; not of a run that broke or was stopped
  bool was_stopped = false;
};

// All that a run is at some step. A scaler is a function of what it saw, so the rows are its state.
struct TrainingState {
  std::vector<std::vector<float>> parameters;  // in the model's order
  std::vector<Moments> moments;
  std::uint64_t optimiser_steps = 0;
  std::vector<LayerState> layers;
  std::vector<StepRow> rows;
  std::optional<FirstNonFinite> first_nonfinite;
  std::optional<std::uint64_t> broke;
};

class Trainer {
 public:
  explicit Trainer(RunRequest request);  // throws Error for a request that cannot be met
  ~Trainer();

  bool finished() const;  // all steps done, or broke
  const StepRow& step();
  // The same with a chance to spoil the batch or the parameters, for studies of what a step does about it.
  const StepRow& step(const std::function<void(Model<float>&, Batch&)>& spoil);
  const std::vector<StepRow>& rows() const;  // of the steps so far
  const StepReport* last_report() const;     // of the last step when it was instrumented, else nullptr
  RunResult result();                        // measures on held-out data when the run is finished

  TrainingState state() const;
  void restore(TrainingState state);  // throws Error when it is not of such a run

  const RunRequest& request() const;  // with the task's own settings filled in
  Model<float>& model();
  const Optimiser& optimiser() const;

 private:
  struct Run;
  std::unique_ptr<Run> run_;
};

// after_step is called with each row; false stops the run there.
RunResult run_training(const RunRequest& request, const std::function<bool(const StepRow&)>& after_step = {});

}  // namespace narrow::train
