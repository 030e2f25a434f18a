// layer_norm and rms_norm backward: gradients of x along rows, those of w and b along columns.
#include <array>
#include <cmath>
#include <vector>

#include "narrow/special/operation_kernels.hpp"
#include "narrow/special/operation_parts.hpp"

namespace narrow::detail {

namespace {

constexpr std::size_t gradient_vector = 4, gradient_threads = 128;
constexpr auto add_gradients = [](float a, float b) { return a + b; };
using NormStatistics = RowStatistics (*)(const OperationRequest&, std::span<const float>);

// Of g w, and of g w (x - mean) rstd.
struct GradientSums {
  float plain = 0, weighted = 0;
};

GradientSums add_gradient_row(const OperationRequest& request, std::size_t first, const RowStatistics& row) {
  std::array<float, gradient_threads> plain{}, weighted{};
  for (std::size_t i = 0; i < request.cols; ++i) {
    const std::size_t thread = i / gradient_vector % gradient_threads;
    const float g = request.w.empty() ? request.g[first + i] : request.g[first + i] * request.w[i];
    plain[thread] += g;
    weighted[thread] = std::fma(g * (request.x[first + i] - row.mean), row.rstd, weighted[thread]);
  }
  return {fold_block(plain.data(), gradient_threads / 32, add_gradients),
          fold_block(weighted.data(), gradient_threads / 32, add_gradients)};
}

void run_norm_rows_backward(const OperationRequest& request, OperationCodes codes, NormStatistics statistics,
                            bool centred) {
  const auto length = static_cast<float>(request.cols);
  for_rows(request, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const std::size_t first = r * request.cols;
      const RowStatistics row = statistics(request, request.x.subspan(first, request.cols));
      const GradientSums sums = add_gradient_row(request, first, row);
      const float factor = 1 / length * row.rstd;
      for (std::size_t i = 0; i < request.cols; ++i) {
        const float scaled = request.w.empty() ? length : length * request.w[i];
        const float distance = (request.x[first + i] - row.mean) * row.rstd;
        float dx = std::fma(scaled, request.g[first + i], -(distance * sums.weighted));
        if (centred) dx -= sums.plain;
        codes[first + i] = store_code(dx * factor, request.type);
      }
    }
  });
}

// Rows are dealt to the threads of a column by eights.
constexpr std::size_t rows_of_thread = 8, most_column_threads = 32;
std::size_t column_threads(std::size_t rows) {
  if (rows < 64) return 1;
  if (rows < 128) return 8;
  return rows < 256 ? 16 : most_column_threads;
}

// next(sum, element, statistics of its row) over all rows, for each column.
template <class Next>
void run_norm_columns(const OperationRequest& request, OperationCodes codes, std::span<const RowStatistics> rows,
                      const Next& next) {
  constexpr std::size_t part = 64;
  const std::size_t threads = column_threads(request.rows);
  parallel_parts(request.cols, part, request.threads, [&](std::size_t begin, std::size_t end) {
    std::array<std::array<float, most_column_threads>, part> sums{};
    for (std::size_t r = 0; r < request.rows; ++r) {
      const std::size_t thread = r / rows_of_thread % threads;
      for (std::size_t c = begin; c < end; ++c) {
        float& sum = sums[c - begin][thread];
        sum = next(sum, r * request.cols + c, rows.empty() ? RowStatistics{} : rows[r]);
      }
    }
    for (std::size_t c = begin; c < end; ++c) {
      fold_halves(sums[c - begin].data(), threads, 1, add_gradients);
      codes[c] = store_code(sums[c - begin][0], request.type);
    }
  });
}

void run_norm_weight(const OperationRequest& request, OperationCodes codes, NormStatistics statistics) {
  std::vector<RowStatistics> rows(request.rows);
  for_rows(request, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r)
      rows[r] = statistics(request, request.x.subspan(r * request.cols, request.cols));
  });
  run_norm_columns(request, codes, rows, [&](float sum, std::size_t i, const RowStatistics& row) {
    return std::fma(request.g[i] * (request.x[i] - row.mean), row.rstd, sum);
  });
}

}  // namespace

std::string norm_backward_kernel(const OperationRequest& request) {
  if (!is_operation_type(request.type)) return {};
  return request.cols % gradient_vector == 0 ? "layer_norm_grad_input_kernel_vectorized"
                                             : "layer_norm_grad_input_kernel";
}

void run_layer_norm_backward(const OperationRequest& request, OperationCodes codes) {
  run_norm_rows_backward(request, codes, layer_norm_statistics, true);
}
void run_rms_norm_backward(const OperationRequest& request, OperationCodes codes) {
  run_norm_rows_backward(request, codes, rms_norm_statistics, false);
}

std::string norm_weight_kernel(const OperationRequest& request) {
  // Many short rows are added in two steps, which no recording has.
  constexpr std::size_t most_rows = 65536, many_cols = 66 * 32;
  if (!is_operation_type(request.type) || (request.rows > most_rows && request.cols < many_cols)) return {};
  const std::size_t threads = column_threads(request.rows);
  return "GammaBetaBackwardCUDAKernelTemplate<32, " + std::to_string(threads) + ", " +
         std::to_string(threads * rows_of_thread) + ">";
}

void run_layer_norm_weight_backward(const OperationRequest& request, OperationCodes codes) {
  run_norm_weight(request, codes, layer_norm_statistics);
}
void run_rms_norm_weight_backward(const OperationRequest& request, OperationCodes codes) {
  run_norm_weight(request, codes, rms_norm_statistics);
}
void run_layer_norm_bias_backward(const OperationRequest& request, OperationCodes codes) {
  run_norm_columns(request, codes, {},
                   [&](float sum, std::size_t i, const RowStatistics&) { return sum + request.g[i]; });
}

}  // namespace narrow::detail
