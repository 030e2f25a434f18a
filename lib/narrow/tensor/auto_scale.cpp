#include <algorithm>
#include <cmath>
#include <utility>

#include "narrow/array/histogram.hpp"
#include "narrow/tensor/chunks.hpp"
#include "narrow/tensor/tensor_statistics.hpp"

namespace narrow {
namespace {

// What one look at the data tells: where overflow begins exactly, and bounds of what underflows.
struct Look {
  ExponentHistogram histogram;
  float low = 0, high = 0;             // of the finite values
  double wide_low = 0, wide_high = 0;  // of tensors that FP32 cannot hold

  std::optional<int> largest_scale(const FormatCast& to) const {
    const std::optional<int> a = largest_scale_log2(low, high, to), b = largest_scale_log2(wide_low, wide_high, to);
    return a && b ? std::optional(std::min(*a, *b)) : std::nullopt;
  }
};

template <class T>
void widen(T& low, T& high, std::span<const T> values) {
  for (const T x : values)
    if (std::isfinite(x)) low = std::min(low, x), high = std::max(high, x);
}

// One pass over the pieces of all tensors: merge(compute(tensor, reader, first, count)).
template <class Compute, class Merge>
void fold_tensors(std::span<const Tensor> tensors, const TensorPass& pass, const Compute& compute, const Merge& merge) {
  std::vector<std::pair<const Tensor*, std::uint64_t>> pieces;
  for (const Tensor& tensor : tensors)
    for (std::uint64_t first = 0; first < tensor.values(); first += chunk_values) pieces.emplace_back(&tensor, first);
  std::optional<ValueReader> reader;
  const Tensor* read = nullptr;
  fold_pieces(
      pass.log, pieces.size(),
      [&](std::size_t k) {
        const auto [tensor, first] = pieces[k];
        const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(chunk_values, tensor->values() - first));
        if (std::exchange(read, tensor) != tensor) reader.emplace(*tensor, pass.threads);
        auto left = compute(*tensor, *reader, first, count);
        if (pass.done) pass.done(bytes_of_values(*tensor, count));
        return left;
      },
      merge);
}

Look look_at(std::span<const Tensor> tensors, const TensorPass& pass) {
  Look all;
  fold_tensors(
      tensors, pass,
      [&](const Tensor& tensor, ValueReader& reader, std::uint64_t first, std::size_t count) {
        Look look;
        if (!fits_float(tensor)) widen(look.wide_low, look.wide_high, reader.doubles(first, count));
        const std::span<const float> values = reader.floats(first, count);
        if (fits_float(tensor)) widen(look.low, look.high, values);
        look.histogram = exponent_histogram(values, pass.threads);
        return look;
      },
      [&](const Look& look) {
        all.histogram.merge(look.histogram);
        all.low = std::min(all.low, look.low), all.high = std::max(all.high, look.high);
        all.wide_low = std::min(all.wide_low, look.wide_low), all.wide_high = std::max(all.wide_high, look.wide_high);
      });
  return all;
}

FormatCast to_nearest(FormatCast to) {
  if (to.cast.rounding == Rounding::stochastic || to.cast.rounding == Rounding::to_odd)
    to.cast.rounding = Rounding::nearest_even;
  return to;
}

// A larger scale moves every value to a grid at least as fine: up to the largest one nothing gets worse. So that one is
// as good as any, and the choice is the smallest k from 0 on that equals it.
//
// Where thresholds cut binades, a histogram cannot tell whether two scales lose equally many; these are counted.
std::vector<double> least_loss(const Look& look, const std::vector<int>& largest, std::span<const Tensor> tensors,
                               std::span<const FormatCast> casts, const TensorPass& pass) {
  std::vector<ScaledFormat> tried;
  std::vector<std::size_t> owner;
  for (std::size_t c = 0; c < casts.size(); ++c) {
    const FormatCast to = to_nearest(casts[c]);
    const auto lost = [&](int k) { return shares_from_histogram(look.histogram, to, k).underflow; };
    const Bounds least = lost(largest[c]);
    for (int k = std::min(0, largest[c]); k <= largest[c]; ++k) {
      const Bounds here = lost(k);
      if (here.lower > least.upper) continue;
      tried.push_back({to, k}), owner.push_back(c);
      if (here.upper <= least.lower) break;  // for sure: nothing farther is wanted
    }
    if (tried.back().scale_log2 != largest[c]) tried.push_back({to, largest[c]}), owner.push_back(c);
  }
  std::vector<std::uint64_t> lost(tried.size());
  fold_tensors(
      tensors, pass,
      [&](const Tensor&, ValueReader& reader, std::uint64_t first, std::size_t count) {
        return exponent_histogram(reader.floats(first, count), tried, pass.threads).shares;
      },
      [&](const std::vector<ExactShares>& exact) {
        for (std::size_t i = 0; i < tried.size(); ++i) lost[i] += exact[i].underflow;
      });
  std::vector<double> scales(casts.size(), 1.0);
  std::vector<std::uint64_t> least(casts.size(), ~std::uint64_t{0});
  for (std::size_t i = 0; i < tried.size(); ++i)  // ascending: only a smaller loss moves the choice
    if (lost[i] < least[owner[i]]) least[owner[i]] = lost[i], scales[owner[i]] = std::ldexp(1.0, tried[i].scale_log2);
  return scales;
}

double best_sqnr(int largest, std::span<const Tensor> tensors, const FormatCast& to, const TensorPass& pass) {
  const auto error_at = [&](int k) {
    const ScaledCast cast{to_nearest(to), std::ldexp(1.0, k)};
    double sum = 0;
    for (const Tensor& tensor : tensors) sum += tensor_statistics(tensor, {&cast, 1}, pass).formats[0].squared_error;
    return sum;
  };
  constexpr double summation =
      0x1p-40;  // sums that differ by less are equal: far more than their rounding, no digit of dB
  int equal = largest, worse = -1;
  const double least = largest <= 0 ? 0 : error_at(largest);
  while (equal - worse > 1 && largest > 0) {
    const int middle = (equal + worse) / 2;
    (error_at(middle) <= least * (1 + summation) ? equal : worse) = middle;
  }
  return std::ldexp(1.0, equal);
}

}  // namespace

std::vector<AutoScale> auto_scales(std::span<const Tensor> tensors, std::span<const FormatCast> casts, ScaleGoal goal,
                                   const TensorPass& pass) {
  const Look look = look_at(tensors, pass);
  std::vector<int> largest;
  std::vector<AutoScale> out(casts.size());
  for (std::size_t c = 0; c < casts.size(); ++c) {
    const std::optional<int> k = look.largest_scale(casts[c]);
    out[c].overflows = !k;
    largest.push_back(k.value_or(ExponentHistogram::min_exponent));
  }
  std::vector<double> scales;
  if (goal == ScaleGoal::least_loss) scales = least_loss(look, largest, tensors, casts, pass);
  for (std::size_t c = 0; c < casts.size(); ++c)
    out[c].scale = goal == ScaleGoal::least_loss ? scales[c] : best_sqnr(largest[c], tensors, casts[c], pass);
  return out;
}

}  // namespace narrow
