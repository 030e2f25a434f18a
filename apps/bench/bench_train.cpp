// The speed of training steps of the default language model: FP32 beside what Eigen's product rate would allow for the
// same multiply-adds, and other recipes beside FP32, all in one run; and how long whole runs take beside their limits.
#include <memory>

#include "bench/bench.hpp"
#include "bench/bench_eigen.hpp"
#include "cli/number_text.hpp"
#include "cli/progress.hpp"
#include "narrow/train/run/trainer.hpp"

namespace app {
namespace {

// One for each way in which products are computed: plain, rounded operands, FP8 with scales, tensor-core models.
constexpr const char* recipes[] = {"fp32", "bf16-amp", "fp16-amp", "fp8-current", "mxfp8", "bf16-hopper", "fp8-hopper"};

// Large enough to show Eigen at its best.
struct EigenProduct {
  static constexpr Eigen::Index n = 512;
  Eigen::MatrixXf x = Eigen::MatrixXf::Random(n, n), y = Eigen::MatrixXf::Random(n, n), z{n, n};
  double seconds_each(int threads) {
    return seconds([&] { eigen_product(x, y, z, threads); }) / static_cast<double>(n * n * n);
  }
};

struct Candidate {
  std::unique_ptr<narrow::train::Trainer> trainer;
  double best = 1e300;
  bool is_slow;  // a tensor-core model: one step is enough
};

Candidate make_candidate(const char* recipe, int threads) {
  narrow::train::RunRequest request;
  request.task = narrow::train::Task::lm;
  request.recipe = narrow::train::require_recipe(recipe);
  request.threads = threads;
  const bool is_slow = request.recipe.name.ends_with("-hopper");
  return {std::make_unique<narrow::train::Trainer>(std::move(request)), 1e300, is_slow};
}

// A whole run of a task with its own settings, data and held-out measurement included.
struct WholeRun {
  narrow::train::Task task;
  std::vector<const char*> recipes;
};
constexpr double limit_seconds = 60;  // what a user may have to wait for a table

const char* eigen_words = "Eigen's float product of size 512, for as many multiply-adds";

BenchRow bench_run(const WholeRun& run, int threads, double eigen_seconds_each) {
  double products = 0;
  std::uint64_t steps = 0;
  const double time = seconds([&] {
    for (const char* recipe : run.recipes) {
      narrow::train::RunRequest request;
      request.task = run.task;
      request.recipe = narrow::train::require_recipe(recipe);
      request.threads = threads;
      narrow::train::Trainer trainer(std::move(request));
      while (!trainer.finished()) trainer.step();
      trainer.result();
      steps = *trainer.request().steps;
      products += static_cast<double>(trainer.model().multiply_adds(*trainer.request().batch)) *
                  static_cast<double>(trainer.rows().size());
    }
  });
  const std::string format = run.recipes.size() == 1 ? run.recipes[0] : std::to_string(run.recipes.size()) + " recipes";
  BenchRow row{"train", format, "", "", static_cast<std::size_t>(products), threads, std::string(name_of(run.task))};
  row.mode = std::to_string(steps) + " steps: " + decimal_text(time, 1) + " s of " + decimal_text(limit_seconds, 0);
  row.rate = products / time * 1e-9;
  row.unit = "GMAC/s";
  row.ratio = products * eigen_seconds_each / time;
  row.ratio_to = eigen_words;
  return row;
}

}  // namespace

// In turns, so that whatever else the machine does meets all alike; the first turn, in which memory is taken, counts
// for the slow ones only.
std::vector<BenchRow> bench_training(int repeat, bool one_thread_only) {
  const int threads = one_thread_only ? 1 : narrow::default_threads();
  Progress progress("training steps", std::size(recipes) * static_cast<std::size_t>(repeat + 1));
  std::vector<Candidate> candidates;
  for (const char* recipe : recipes) candidates.push_back(make_candidate(recipe, threads));
  EigenProduct eigen;
  double best_eigen = 1e300;
  for (int turn = 0; turn <= repeat; ++turn) {
    for (int k = 0; k < 5; ++k) best_eigen = std::min(best_eigen, eigen.seconds_each(threads));
    for (Candidate& c : candidates) {
      progress.add();
      if (c.is_slow && turn > 0) continue;
      const double time = seconds([&] { c.trainer->step(); });
      if (c.is_slow || turn > 0) c.best = std::min(c.best, time);
    }
  }

  std::vector<BenchRow> rows;
  for (const Candidate& c : candidates) {
    const narrow::train::RunRequest& request = c.trainer->request();
    const auto products = static_cast<double>(c.trainer->model().multiply_adds(*request.batch));
    BenchRow row{"train", request.recipe.name, "lm step", "", static_cast<std::size_t>(products), threads, "text"};
    row.rate = products / c.best * 1e-9;
    row.unit = "GMAC/s";
    row.ratio = rows.empty() ? products * best_eigen / c.best : candidates[0].best / c.best;
    row.ratio_to = rows.empty() ? eigen_words : "the fp32 step";
    rows.push_back(row);
  }
  if (one_thread_only) return rows;  // --quick: whole runs take too long
  const WholeRun runs[] = {
      {narrow::train::Task::digits, {"fp32", "bf16-amp", "fp16-amp", "fp16-amp-noscale", "fp16-pure", "fp8-current"}},
      {narrow::train::Task::lm, {"fp32"}}};
  for (const WholeRun& run : runs) rows.push_back(bench_run(run, threads, best_eigen));
  return rows;
}

}  // namespace app
