#include "narrow/tensor/auto_scale.hpp"

#include <algorithm>
#include <cmath>

#include "narrow/array/histogram.hpp"

namespace narrow {
namespace {

constexpr int least_log2 = -126, most_log2 = 127;  // normal floats

// Closest to 1 first.
std::vector<int> all_scales() {
  std::vector<int> scales{0};
  for (int k = 1; k <= most_log2; ++k) {
    scales.push_back(k);
    if (-k >= least_log2) scales.push_back(-k);
  }
  return scales;
}

// A histogram gives bounds of the loss at any scale, because a threshold may cut a binade. Only scales whose lower
// bound does not exceed the smallest upper bound can be the best.
std::vector<int> candidates(const ExponentHistogram& histogram, const FormatCast& to) {
  std::vector<int> scales = all_scales();
  std::vector<std::uint64_t> lower;
  std::uint64_t smallest_upper = ~std::uint64_t{0};
  for (const int k : scales) {
    const HistogramShares shares = shares_from_histogram(histogram, to, k);
    lower.push_back(shares.underflow.lower + shares.overflow.lower);
    const std::uint64_t upper = shares.underflow.upper + shares.overflow.upper;
    smallest_upper = std::min(smallest_upper, upper);
    if (upper == 0) break;  // nothing closer to 1 loses nothing for sure, nothing farther is wanted
  }
  std::vector<int> out;
  for (std::size_t i = 0; i < lower.size(); ++i)
    if (lower[i] <= smallest_upper) out.push_back(scales[i]);
  return out;
}

FormatCast with_thresholds(FormatCast to) {
  if (to.cast.rounding == Rounding::stochastic) to.cast.rounding = Rounding::nearest_even;
  return to;
}

template <class Body>
void for_each_floats(std::span<const Tensor> tensors, const TensorPass& pass, const Body& body) {
  for (const Tensor& tensor : tensors) {
    ValueReader reader(tensor, pass.threads);
    for_each_chunk(tensor, pass.done,
                   [&](std::uint64_t first, std::size_t count) { body(reader.floats(first, count)); });
  }
}

}  // namespace

std::vector<double> least_loss_scales(std::span<const Tensor> tensors, std::span<const FormatCast> casts,
                                      const TensorPass& pass) {
  ExponentHistogram histogram;
  for_each_floats(tensors, pass,
                  [&](std::span<const float> values) { histogram.merge(exponent_histogram(values, pass.threads)); });
  std::vector<ScaledFormat> tried;
  std::vector<std::size_t> owner;
  for (std::size_t k = 0; k < casts.size(); ++k)
    for (const int scale : candidates(histogram, with_thresholds(casts[k])))
      tried.push_back({with_thresholds(casts[k]), scale}), owner.push_back(k);

  std::vector<std::uint64_t> lost(tried.size());
  if (tried.size() > casts.size())  // else there is no choice left
    for_each_floats(tensors, pass, [&](std::span<const float> values) {
      const HistogramWithShares exact = exponent_histogram(values, tried, pass.threads);
      for (std::size_t i = 0; i < tried.size(); ++i) lost[i] += exact.shares[i].underflow + exact.shares[i].overflow;
    });

  std::vector<double> scales(casts.size(), 1.0);
  std::vector<std::uint64_t> least(casts.size(), ~std::uint64_t{0});
  for (std::size_t i = 0; i < tried.size(); ++i)  // closest to 1 first, so only a smaller loss moves the choice
    if (lost[i] < least[owner[i]]) least[owner[i]] = lost[i], scales[owner[i]] = std::ldexp(1.0, tried[i].scale_log2);
  return scales;
}

}  // namespace narrow
