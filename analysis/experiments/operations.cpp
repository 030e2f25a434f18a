#include "analysis/experiments/operations.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "narrow/array/array.hpp"
#include "narrow/base/error.hpp"
#include "narrow/dot/gemm.hpp"
#include "narrow/scale/tensor_scale.hpp"
#include "narrow/train/operations/unfold.hpp"

namespace analysis {

using namespace narrow;

double Rounder::operator()(double x) const { return format == nullptr ? x : round_to(x, *format); }

Numbers exp_of(std::span<const double> x, const Rounder& r) {
  Numbers y;
  for (const double v : x) y.push_back(r(std::exp(r(v))));
  return y;
}

Numbers log_of(std::span<const double> x, const Rounder& r) {
  Numbers y;
  for (const double v : x) y.push_back(r(std::log(r(v))));
  return y;
}

Numbers gelu_of(std::span<const double> x, const Rounder& r) {
  const double root_half = r(std::sqrt(0.5));
  Numbers y;
  for (const double v : x) {
    const double u = r(v);
    y.push_back(r(r(u * 0.5) * r(1 + r(std::erf(r(u * root_half))))));
  }
  return y;
}

namespace {

void require_equal(std::span<const double> x, std::span<const double> y) {
  if (x.size() != y.size())
    throw Error("a sum of " + std::to_string(x.size()) + " and " + std::to_string(y.size()) +
                " values; both sides need as many");
}

}  // namespace

Numbers add_of(std::span<const double> x, std::span<const double> y, const Rounder& r) {
  require_equal(x, y);
  Numbers z;
  for (std::size_t i = 0; i < x.size(); ++i) z.push_back(r(r(x[i]) + r(y[i])));
  return z;
}

namespace {

double row_sum(std::span<const double> x, const Rounder& r) {
  double sum = 0;
  for (const double v : x) sum = r(sum + r(v));
  return sum;
}

double row_variance(std::span<const double> x, double mean, const Rounder& r) {
  double sum = 0;
  for (const double v : x) {
    const double d = r(r(v) - mean);
    sum = r(sum + r(d * d));
  }
  return r(sum / static_cast<double>(x.size()));
}

template <class Row>
Numbers by_rows(std::span<const double> x, std::size_t cols, const Row& row) {
  Numbers y;
  for (std::size_t at = 0; at + cols <= x.size(); at += cols) row(x.subspan(at, cols), y);
  return y;
}

double row_mean(std::span<const double> x, const Rounder& r) {
  return r(row_sum(x, r) / static_cast<double>(x.size()));
}

// exp(x - largest) of a row, and their sum.
Numbers shifted_exp(std::span<const double> x, const Rounder& r, double& top, double& sum) {
  top = r(*std::max_element(x.begin(), x.end()));
  sum = 0;
  Numbers e;
  for (const double v : x) {
    e.push_back(r(std::exp(r(r(v) - top))));
    sum = r(sum + e.back());
  }
  return e;
}

}  // namespace

Numbers sum_of(std::span<const double> x, std::size_t cols, const Rounder& r) {
  return by_rows(x, cols, [&](std::span<const double> row, Numbers& y) { y.push_back(row_sum(row, r)); });
}

Numbers variance_of(std::span<const double> x, std::size_t cols, const Rounder& r) {
  return by_rows(x, cols,
                 [&](std::span<const double> row, Numbers& y) { y.push_back(row_variance(row, row_mean(row, r), r)); });
}

Numbers softmax_of(std::span<const double> x, std::size_t cols, const Rounder& r) {
  return by_rows(x, cols, [&](std::span<const double> row, Numbers& y) {
    double top = 0, sum = 0;
    for (const double e : shifted_exp(row, r, top, sum)) y.push_back(r(e / sum));
  });
}

Numbers layer_norm_of(std::span<const double> x, std::size_t cols, const Rounder& r) {
  return by_rows(x, cols, [&](std::span<const double> row, Numbers& y) {
    const double mean = row_mean(row, r), variance = row_variance(row, mean, r);
    const double factor = r(1 / r(std::sqrt(r(variance + r(1e-5)))));
    for (const double v : row) y.push_back(r(r(r(v) - mean) * factor));
  });
}

// -log softmax of the class with the largest logit, as log(sum) - (x - top).
Numbers cross_entropy_of(std::span<const double> x, std::size_t cols, const Rounder& r) {
  return by_rows(x, cols, [&](std::span<const double> row, Numbers& y) {
    double top = 0, sum = 0;
    shifted_exp(row, r, top, sum);
    const double chosen = r(*std::max_element(row.begin(), row.end()));
    y.push_back(r(r(std::log(sum)) - r(chosen - top)));
  });
}

Numbers dot_of(std::span<const double> x, std::span<const double> y, std::size_t cols, const Rounder& r) {
  require_equal(x, y);
  Numbers products;
  for (std::size_t i = 0; i < x.size(); ++i) products.push_back(r(r(x[i]) * r(y[i])));
  return sum_of(products, cols, r);
}

Numbers mse_of(std::span<const double> x, std::span<const double> y, std::size_t cols, const Rounder& r) {
  require_equal(x, y);
  Numbers d;
  for (std::size_t i = 0; i < x.size(); ++i) d.push_back(r(r(x[i]) - r(y[i])));
  Numbers sums = dot_of(d, d, cols, r);
  for (double& s : sums) s = r(s / static_cast<double>(cols));
  return sums;
}

// ---- Over the batch ----

namespace {

Numbers transposed(std::span<const double> x, std::size_t cols) {
  Numbers t;
  for (std::size_t j = 0; j < cols; ++j)
    for (std::size_t i = j; i < x.size(); i += cols) t.push_back(x[i]);
  return t;
}

}  // namespace

Numbers batch_norm_of(std::span<const double> x, std::size_t cols, const Rounder& r) {
  return layer_norm_of(transposed(x, cols), x.size() / cols, r);
}

Numbers running_of(std::span<const double> x, std::size_t cols, Statistic statistic, std::size_t batches,
                   const Rounder& r) {
  const std::size_t rows = std::min<std::size_t>(8, x.size() / cols), groups = rows == 0 ? 0 : x.size() / cols / rows;
  std::vector<Numbers> seen;  // of each group
  for (std::size_t g = 0; g < groups; ++g) {
    const Numbers t = transposed(x.subspan(g * rows * cols, rows * cols), cols);
    const auto n = static_cast<double>(rows);
    seen.push_back(statistic == Statistic::mean ? sum_of(t, rows, {}) : variance_of(t, rows, {}));
    for (double& s : seen.back()) s = statistic == Statistic::mean ? s / n : s * n / (n - 1);
  }
  Numbers running(cols, statistic == Statistic::mean ? 0 : 1);
  for (std::size_t b = 0; groups > 0 && b < batches; ++b)
    for (std::size_t j = 0; j < cols; ++j) running[j] = r(r(0.9 * running[j]) + r(0.1 * seen[b % groups][j]));
  return running;
}

// ---- Products ----

Numbers windows_of(std::span<const double> x, std::size_t dimensions, std::size_t side, std::size_t channels) {
  train::Readings readings;
  std::size_t values = channels, windows = channels;
  for (std::size_t d = 0; d < dimensions; ++d) {
    readings.at(d) = train::read_windows({.kernel = 3}, side);
    values *= side, windows *= 3 * readings[d].rows;
  }
  if (x.size() < values)
    throw Error("a convolution over " + std::to_string(values) + " values needs more than " + std::to_string(x.size()));
  Numbers rows(windows);
  train::unfold(x.data(), 1, readings, channels, rows.data(), 1);
  return rows;
}

namespace {

const DotModel* tensor_core_for(const Format& f) {
  for (const char* name : {"hopper.wgmma.f32.f16.f16", "hopper.wgmma.f32.bf16.bf16", "hopper.wgmma.f32.e4m3.e4m3",
                           "hopper.wgmma.f32.e5m2.e5m2"})
    if (const DotModel* model = find_dot_model(name); model != nullptr && model->a.format == f) return model;
  return nullptr;
}

double amax_of(std::span<const double> x) {
  double largest = 0;
  for (const double v : x) largest = std::max(largest, std::fabs(v));
  return largest;
}

double scale_for(std::span<const double> x, const Format& f) {
  if (f.width() > 8) return 1;
  const double largest = decode(f.max_code(), f);
  return static_cast<double>(te_scale(static_cast<float>(amax_of(x)), static_cast<float>(largest), true));
}

std::vector<std::uint32_t> codes_of(std::span<const double> x, const Format& f, double scale) {
  Numbers scaled(x.begin(), x.end());
  for (double& v : scaled) v *= scale;
  std::vector<std::uint32_t> codes(x.size());
  encode_array(std::span<const double>(scaled), f, Cast{.overflow = Overflow::saturate},
               std::span<std::uint32_t>(codes));
  return codes;
}

Numbers exact_matmul(std::span<const double> x, std::span<const double> w, std::size_t k) {
  Numbers y;
  for (std::size_t i = 0; i + k <= x.size(); i += k)
    for (std::size_t j = 0; j + k <= w.size(); j += k) {
      double sum = 0;
      for (std::size_t l = 0; l < k; ++l) sum += x[i + l] * w[j + l];
      y.push_back(sum);
    }
  return y;
}

}  // namespace

Numbers matmul_of(std::span<const double> x, std::span<const double> w, std::size_t k, const Format* format,
                  bool narrow_sums) {
  if (format == nullptr) return exact_matmul(x, w, k);
  const Format f = *format;
  const DotType type{"t", f};
  const DotModel* core = tensor_core_for(f);
  const DotModel model = narrow_sums || core == nullptr ? software_model(Unit::fma, type, type, type) : *core;
  const std::size_t m = x.size() / k, n = w.size() / k;
  // A running sum of products that are scaled to the end of the range would overflow at once.
  const double scale_x = narrow_sums ? 1 : scale_for(x, f), scale_w = narrow_sums ? 1 : scale_for(w, f);
  const std::vector<std::uint32_t> a = codes_of(x, f, scale_x), b = codes_of(w, f, scale_w);
  std::vector<std::uint32_t> d(m * n);
  gemm(model, Plan{}, MatrixView<const std::uint32_t>{a.data(), m, k},
       MatrixView<const std::uint32_t>{b.data(), k, n, k, Layout::column_major},
       MatrixView<const std::uint32_t>{nullptr, m, n}, MatrixView<std::uint32_t>{d.data(), m, n});
  Numbers y(d.size());
  decode_array(std::span<const std::uint32_t>(d), model.accumulator.format, std::span<double>(y));
  for (double& v : y) v = round_to(v / (scale_x * scale_w), f.width() > 8 ? f : "bf16"_fmt);
  return y;
}

OperationError error_of(const Numbers& got, const Numbers& reference) {
  double error = 0, signal = 0, bad = 0, all = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(reference[i])) continue;
    all += 1;
    if (!std::isfinite(got[i])) {
      bad += 1;
      continue;
    }
    const double e = got[i] - reference[i];
    error += e * e, signal += reference[i] * reference[i];
  }
  return {bad > 0 || signal == 0 ? std::nan("") : std::sqrt(error / signal), all == 0 ? 0 : bad / all};
}

}  // namespace analysis
