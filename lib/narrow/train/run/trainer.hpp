// One training run as a function of its request: the same request gives the same bits, for any number of threads.
// Writes no files and prints nothing.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "narrow/scale/scaler_table.hpp"
#include "narrow/train/run/gradients.hpp"
#include "narrow/train/run/instrument.hpp"
#include "narrow/train/run/run.hpp"
#include "narrow/train/run/schedule.hpp"
#include "narrow/train/run/task.hpp"

namespace narrow::train {

// Throws Error when a batch does not divide into so many ranks with so many micro-batches.
void check_batch(std::size_t batch, std::size_t ranks, std::size_t micro_batches);

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

}  // namespace narrow::train
