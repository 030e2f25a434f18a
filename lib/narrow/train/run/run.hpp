// A training run as a function of its request: the same request gives the same bits, for any number of threads. Writes
// no files and prints nothing.
//
//   train::RunRequest request;
//   request.recipe = train::require_recipe("bf16-pure");
//   request.steps = 20;
//   const train::RunResult result = train::run_training(request);
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "narrow/array/histogram.hpp"
#include "narrow/cluster/algorithm.hpp"
#include "narrow/scale/block_format.hpp"
#include "narrow/train/policy/recipe.hpp"

namespace narrow::cluster {
class Messages;
}

namespace narrow::train {

class Dataset;

// What can be learned, and the words for it.
enum class Task : std::uint8_t { digits, lm, fashion, fashion_vit };
inline constexpr std::array<std::string_view, 4> task_names = {"digits", "lm", "fashion", "fashion-vit"};
constexpr std::string_view name_of(Task t) noexcept { return task_names[static_cast<std::size_t>(t)]; }
Task require_task(std::string_view name);  // throws Error with the names

// What belongs to a task when nothing else is asked for.
struct TaskSettings {
  ModelShape shape;
  OptimiserSettings optimiser;
  std::uint64_t steps;
  std::size_t batch;  // images, or windows of text, a step
};
// The task's own settings.
TaskSettings settings_of(Task task);
// With the model of this name: the task's own, or cnn for digits and fashion. Throws Error with the names.
TaskSettings settings_of(Task task, std::string_view model);

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
  cluster::Algorithm order = cluster::Algorithm::ring;
  std::optional<BlockFormat> reduce_blocks;  // what ranks send, instead of the recipe's format for sums over ranks
  bool error_feedback = false;  // a rank adds what its own rounding lost to its next gradients; not in a checkpoint
  // Where given, this process is one of the ranks, and computes the gradients of its own part of each batch: the same
  // bits as all ranks in one process, on all of them. Must outlive the run.
  cluster::Messages* messages = nullptr;
  AccumulateAs accumulate = AccumulateAs::mean;
  ClipOrder clip_order = ClipOrder::after_unscale;
  Schedule schedule;                   // a length of 0 is that of the run
  std::uint64_t instrument_every = 0;  // steps 0, N, 2 N, ...; 0: never
  int threads = 0;
  std::shared_ptr<const Dataset> data;  // opened already, to be shared by several runs; else opened by the task
};

// One tensor of one operation in one step; counts are of elements.
struct TensorReport {
  std::string tensor;
  Operation operation = Operation::linear;
  Role role = Role::weights;
  Format format = "fp32"_fmt;
  std::uint64_t count = 0;
  std::uint64_t underflow = 0;  // not zero before, zero after
  std::uint64_t overflow = 0;   // finite before; Inf, NaN or cut down to the largest finite value after
  std::uint64_t nonfinite = 0;  // after rounding
  float amax = 0;               // of the finite values before rounding
  ExponentHistogram before;     // of the values before rounding
};

// What an instrumented step saw.
struct StepReport {
  std::uint64_t step = 0;
  std::vector<TensorReport> tensors;  // in the order in which the step computed them

  double underflow_share() const;  // of all elements of roles that are rounded
  double overflow_share() const;
  // Of the attention scores as softmax sees them: Inf when one of them is no finite number, 0 without attention.
  float largest_logit() const;
};

// Where numbers stopped being numbers.
struct FirstNonFinite {
  std::uint64_t step = 0;
  std::string tensor;  // "blocks.0.mlp.up"; "update of layers.0.weight" when the optimiser made it
  Operation operation = Operation::linear;
  Role role = Role::weights;
  bool in_model = true;      // operation and role hold only then
  std::string text() const;  // "step 12: linear blocks.0.mlp.up, output"
};

// What stands where nothing was measured.
inline constexpr double not_measured = std::numeric_limits<double>::quiet_NaN();

// One step in numbers.
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

// A run in numbers.
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
  // After the last step; not of a run that broke or was stopped.
  std::optional<double> held_out_loss, held_out_accuracy;
  bool was_stopped = false;
};

// after_step is called with each row; false stops the run there.
RunResult run_training(const RunRequest& request, const std::function<bool(const StepRow&)>& after_step = {});

}  // namespace narrow::train
