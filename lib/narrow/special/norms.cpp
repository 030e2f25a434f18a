// layer_norm and rms_norm: the vectorised kernel of PyTorch, the one for rows that it does not take, and in double.
#include <array>
#include <cmath>

#include "narrow/special/operation_kernels.hpp"
#include "narrow/special/operation_parts.hpp"
#include "narrow/special/special.hpp"

namespace narrow::detail {

namespace {

constexpr double layer_norm_eps = 1e-5, rms_norm_eps = 0x1p-23;  // the second is that of FP32
constexpr std::size_t norm_vector = 4, norm_threads = 128;       // of the vectorised kernel
constexpr std::size_t moment_threads = 512;                      // of the other

bool norm_is_vectorised(std::size_t cols) noexcept { return cols % norm_vector == 0 && cols <= std::size_t{1} << 24; }
float eps_of(const OperationRequest& request, double standard) {
  return static_cast<float>(request.eps.value_or(standard));
}

// Mean and sum of squared distances from it, of the `count` elements so far.
struct Moments {
  float mean = 0, squares = 0, count = 0;
};

// Own b and received a. The reciprocal stands for a division, and a partner without elements is not skipped: the own
// mean is then multiplied by n * (1 / n), which may not be 1.
Moments combine_by_reciprocal(const Moments& b, const Moments& a) {
  const float distance = b.mean - a.mean, count = a.count + b.count;
  if (!(count > 0)) return {0, 0, count};
  const float reciprocal = 1 / count, share_a = a.count * reciprocal, share_b = b.count * reciprocal;
  return {std::fma(share_a, a.mean, share_b * b.mean),
          std::fma(distance * distance * a.count, share_b, a.squares + b.squares), count};
}

// Own a and received b, of the other kernel.
Moments combine_by_division(const Moments& a, const Moments& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const float distance = b.mean - a.mean, count = a.count + b.count, share = b.count / count;
  return {std::fma(distance, share, a.mean), std::fma(distance * distance * a.count, share, a.squares + b.squares),
          count};
}

// visit(thread, element, number) where the element is the number-th of its thread, from 1 on. Threads take vectors of
// 4 in turn: all threads see their n-th element in one sweep, in which only the last threads may be without.
template <class Visit>
void deal_vectors(std::span<const float> row, const Visit& visit) {
  const std::size_t vectors = row.size() / norm_vector;
  for (std::size_t first = 0; first < vectors; first += norm_threads) {
    const std::size_t count = std::min(norm_threads, vectors - first);
    for (std::size_t i = 0; i < norm_vector; ++i) {
      const std::size_t number = first / norm_threads * norm_vector + i + 1;
      for (std::size_t t = 0; t < count; ++t) visit(t, row[(first + t) * norm_vector + i], number);
    }
  }
}

// Variance of a row, divided by its length.
Moments vectorised_moments(std::span<const float> row) {
  std::array<Moments, norm_threads> threads{};
  deal_vectors(row, [&](std::size_t t, float x, std::size_t number) {
    Moments& m = threads[t];
    const float distance = x - m.mean;
    m.count = static_cast<float>(number);
    m.mean = std::fma(distance, 1 / m.count, m.mean);
    m.squares = std::fma(distance, x - m.mean, m.squares);
  });
  Moments all = fold_block(threads.data(), norm_threads / 32, combine_by_reciprocal);
  all.squares /= static_cast<float>(row.size());
  return all;
}

float vectorised_mean_square(std::span<const float> row) {
  std::array<float, norm_threads> threads{};
  deal_vectors(row, [&](std::size_t t, float x, std::size_t) { threads[t] = std::fma(x, x, threads[t]); });
  return fold_block(threads.data(), norm_threads / 32, [](float a, float b) { return a + b; }) /
         static_cast<float>(row.size());
}

Moments rowwise_moments(std::span<const float> row) {
  std::array<Moments, moment_threads> threads{};
  for (std::size_t i = 0; i < row.size(); ++i) {
    Moments& m = threads[i % moment_threads];
    const float distance = row[i] - m.mean;
    m.count = static_cast<float>(i / moment_threads + 1);
    m.mean += distance / m.count;
    m.squares = std::fma(distance, row[i] - m.mean, m.squares);
  }
  Moments all = fold_block(threads.data(), moment_threads / 32, combine_by_division);
  all.squares /= all.count;
  return all;
}

// finish(row, first) for every row, where `first` is the index of its first element.
template <class Finish>
void run_norm_rows(const OperationRequest& request, const Finish& finish) {
  for_rows(request, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r)
      finish(request.x.subspan(r * request.cols, request.cols), r * request.cols);
  });
}

float weight_of(const OperationRequest& request, std::size_t i) { return request.w.empty() ? 1 : request.w[i]; }
float bias_of(const OperationRequest& request, std::size_t i) { return request.b.empty() ? 0 : request.b[i]; }

// w * (rstd * (x - mean)) + b as it is contracted, for the operands that are there.
float vectorised_layer_norm(const OperationRequest& request, std::size_t i, float scaled, float rstd, float distance) {
  if (!request.w.empty())
    return request.b.empty() ? request.w[i] * scaled : std::fma(request.w[i], scaled, request.b[i]);
  return request.b.empty() ? scaled : std::fma(rstd, distance, request.b[i]);
}

}  // namespace

std::string norm_kernel(const OperationRequest& request) {
  if (!is_operation_type(request.type)) return {};
  return norm_is_vectorised(request.cols) ? "vectorized_layer_norm_kernel"
                                          : "RowwiseMomentsCUDAKernel, LayerNormForwardCUDAKernel";
}

RowStatistics layer_norm_statistics(const OperationRequest& request, std::span<const float> row) {
  const Moments all = norm_is_vectorised(request.cols) ? vectorised_moments(row) : rowwise_moments(row);
  return {all.mean, narrow::sfu_rsqrt(all.squares + eps_of(request, layer_norm_eps))};
}

RowStatistics rms_norm_statistics(const OperationRequest& request, std::span<const float> row) {
  float mean_square = 0;
  if (norm_is_vectorised(request.cols)) mean_square = vectorised_mean_square(row);
  else {
    const Moments all = rowwise_moments(row);  // the variance, and the mean added to it again
    mean_square = std::fma(all.mean, all.mean, all.squares);
  }
  return {0, narrow::sfu_rsqrt(mean_square + eps_of(request, rms_norm_eps))};
}

void run_layer_norm(const OperationRequest& request, OperationCodes codes) {
  const bool vectorised = norm_is_vectorised(request.cols);
  run_norm_rows(request, [&](std::span<const float> row, std::size_t first) {
    const auto [mean, rstd] = layer_norm_statistics(request, row);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const float distance = row[i] - mean, scaled = distance * rstd;
      const float y = vectorised ? vectorised_layer_norm(request, i, scaled, rstd, distance)
                                 : std::fma(scaled, weight_of(request, i), bias_of(request, i));
      codes[first + i] = store_code(y, request.type);
    }
  });
}

void run_rms_norm(const OperationRequest& request, OperationCodes codes) {
  run_norm_rows(request, [&](std::span<const float> row, std::size_t first) {
    const float rstd = rms_norm_statistics(request, row).rstd;
    for (std::size_t i = 0; i < row.size(); ++i)
      codes[first + i] = store_code(row[i] * rstd * weight_of(request, i), request.type);
  });
}

void run_layer_norm_double(const OperationRequest& request, OperationCodes codes) {
  run_norm_rows(request, [&](std::span<const float> row, std::size_t first) {
    double mean = 0, squares = 0;
    for (const float x : row) mean += static_cast<double>(x);
    mean /= static_cast<double>(row.size());
    for (const float x : row) squares += (static_cast<double>(x) - mean) * (static_cast<double>(x) - mean);
    const double root = std::sqrt(squares / static_cast<double>(row.size()) + request.eps.value_or(layer_norm_eps));
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double y = (static_cast<double>(row[i]) - mean) / root * static_cast<double>(weight_of(request, i)) +
                       static_cast<double>(bias_of(request, i));
      codes[first + i] = store_code(y, request.type);
    }
  });
}

void run_rms_norm_double(const OperationRequest& request, OperationCodes codes) {
  run_norm_rows(request, [&](std::span<const float> row, std::size_t first) {
    double squares = 0;
    for (const float x : row) squares += static_cast<double>(x) * static_cast<double>(x);
    const double root = std::sqrt(squares / static_cast<double>(row.size()) + request.eps.value_or(rms_norm_eps));
    for (std::size_t i = 0; i < row.size(); ++i)
      codes[first + i] =
          store_code(static_cast<double>(row[i]) / root * static_cast<double>(weight_of(request, i)), request.type);
  });
}

}  // namespace narrow::detail
