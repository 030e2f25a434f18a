// SGD with momentum and AdamW, operation by operation as torch computes them, each operation in the formats of a
// policy.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "narrow/train/operations/tensor.hpp"
#include "narrow/train/policy/policy.hpp"
#include "narrow/train/policy/settings.hpp"

namespace narrow::train {

// What an optimiser remembers of one parameter; carriers of the policy's formats.
struct Moments {
  std::vector<float> first, second, compensation;  // empty where there is none
};

// What a step did, summed over all parameters in a fixed order.
struct UpdateNorms {
  double update = 0, parameters = 0;  // Euclidean norms: of the change, and of the values before it
};

class Optimiser {
 public:
  Optimiser(const OptimiserSettings& settings, const TrainingPolicy& policy);

  // Rounds the parameters to the format that they are kept in. Once, before the first step.
  void begin(const std::vector<Parameter<float>*>& parameters);
  void set_learning_rate(double rate) noexcept {
    settings_.learning_rate = rate;
  }  // of the steps from here on; may be 0
  // One step on the gradients (unscaled, clipped). seed: of the random bits of stochastic rounding in this step.
  UpdateNorms step(const std::vector<Parameter<float>*>& parameters, std::uint64_t seed, int threads = 0);

  std::uint64_t steps() const noexcept { return steps_; }  // skipped ones do not count
  const std::vector<Moments>& moments() const noexcept { return moments_; }
  void restore(std::uint64_t steps, std::vector<Moments> moments) { steps_ = steps, moments_ = std::move(moments); }

 private:
  OptimiserSettings settings_;
  TrainingPolicy policy_;
  std::vector<Moments> moments_;
  std::uint64_t steps_ = 0;
};

}  // namespace narrow::train
