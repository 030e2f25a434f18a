// What a training step did to its numbers: counts and exponent histograms of every tensor, before and after rounding,
// and the operation in which the first Inf or NaN appeared.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "narrow/array/histogram.hpp"
#include "narrow/train/operations/observer.hpp"

namespace narrow::train {

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

struct StepReport {
  std::uint64_t step = 0;
  std::vector<TensorReport> tensors;  // in the order in which the step computed them

  double underflow_share() const;  // of all elements of roles that are rounded
  double overflow_share() const;
  // Of the attention scores as softmax sees them: Inf when one of them is no finite number, 0 without attention.
  float largest_logit() const;
};

// Collects a StepReport. A tensor that is seen several times (micro-batches) is one row.
class Instrument : public Observer {
 public:
  using Observer::saw;
  void saw(const Site& site, std::span<const float> before, std::span<const float> after) override;
  StepReport take(std::uint64_t step);  // what came since the last one

 private:
  std::vector<TensorReport> tensors_;
  std::map<std::pair<std::string, int>, std::size_t> index_;
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

// Remembers the first tensor with an Inf or NaN after rounding.
class FiniteWatch : public Observer {
 public:
  using Observer::saw;
  void saw(const Site& site, std::span<const float> before, std::span<const float> after) override;
  const std::optional<FirstNonFinite>& first() const noexcept { return first_; }

 private:
  std::optional<FirstNonFinite> first_;
};

}  // namespace narrow::train
