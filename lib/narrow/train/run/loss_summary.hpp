// A noisy curve of losses in two numbers: where it ended, and the best it was.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "narrow/train/run/trainer.hpp"

namespace narrow::train {

inline constexpr std::size_t loss_window = 20;  // steps that are averaged: batches differ more than recipes do

struct LossSummary {
  double last = not_measured;  // mean of the last window
  double best = not_measured;  // smallest mean of a window without Inf or NaN
};

inline LossSummary summarise_losses(std::span<const StepRow> rows) {
  const std::size_t n = std::min(rows.size(), loss_window);
  LossSummary summary;
  for (std::size_t end = n; n > 0 && end <= rows.size(); ++end) {
    double sum = 0;
    for (const StepRow& row : rows.subspan(end - n, n)) sum += row.loss;
    summary.last = sum / static_cast<double>(n);
    if (std::isfinite(summary.last)) summary.best = std::fmin(summary.best, summary.last);
  }
  return summary;
}

}  // namespace narrow::train
