// The speed of training steps of the default language model: FP32 beside what Eigen's product rate would allow for the
// same multiply-adds, and other recipes beside FP32, all in one run.
#include <Eigen/Core>
#include <chrono>
#include <memory>

#include "bench.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/train/trainer.hpp"
#include "progress.hpp"

namespace app {
namespace {

// One for each way in which products are computed: plain, rounded operands, FP8 with scales, tensor-core models.
constexpr const char* recipes[] = {"fp32", "bf16-amp", "fp16-amp", "fp8-current", "mxfp8", "bf16-hopper", "fp8-hopper"};

template <class Work>
double seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Large enough to show Eigen at its best.
struct EigenProduct {
  static constexpr Eigen::Index n = 512;
  Eigen::MatrixXf x = Eigen::MatrixXf::Random(n, n), y = Eigen::MatrixXf::Random(n, n), z{n, n};
  double seconds_each() {
    return seconds([&] { z.noalias() = x * y; }) / static_cast<double>(n * n * n);
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
  Eigen::setNbThreads(threads);
  for (int turn = 0; turn <= repeat; ++turn) {
    for (int k = 0; k < 5; ++k) best_eigen = std::min(best_eigen, eigen.seconds_each());
    for (Candidate& c : candidates) {
      progress.add();
      if (c.is_slow && turn > 0) continue;
      const double time = seconds([&] { c.trainer->step(); });
      if (c.is_slow || turn > 0) c.best = std::min(c.best, time);
    }
  }
  Eigen::setNbThreads(0);

  std::vector<BenchRow> rows;
  for (const Candidate& c : candidates) {
    const narrow::train::RunRequest& request = c.trainer->request();
    const auto products = static_cast<double>(c.trainer->model().multiply_adds(*request.batch));
    BenchRow row{"train", request.recipe.name, "lm step", "", static_cast<std::size_t>(products), threads, "text"};
    row.rate = products / c.best * 1e-9;
    row.unit = "GMAC/s";
    row.ratio = rows.empty() ? products * best_eigen / c.best : candidates[0].best / c.best;
    row.ratio_to = rows.empty() ? "Eigen's float product of size 512, for as many multiply-adds" : "the fp32 step";
    rows.push_back(row);
  }
  return rows;
}

}  // namespace app
