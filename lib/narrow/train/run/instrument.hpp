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
#include "narrow/train/run/run.hpp"

namespace narrow::train {

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
