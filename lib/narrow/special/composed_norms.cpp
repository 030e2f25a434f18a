// RMS norms that are written in operations of PyTorch: FP32 squares, mean, + eps, rsqrt, products, each its own kernel.
#include <vector>

#include "narrow/special/operation_kernels.hpp"
#include "narrow/special/operation_parts.hpp"
#include "narrow/special/special.hpp"

namespace narrow::detail {

namespace {

constexpr std::size_t bytes_of_fp32 = 4;  // whatever the type of x is

std::vector<float> mean_squares(const OperationRequest& request) {
  std::vector<float> squares(request.x.size()), means(request.rows);
  for (std::size_t i = 0; i < squares.size(); ++i) squares[i] = request.x[i] * request.x[i];
  sum_rows(plan_sum(request.rows, request.cols, bytes_of_fp32, torch_2_10_sum), squares, means, request.threads);
  for (float& mean : means) mean *= mean_factor(request.rows, request.cols);
  return means;
}

// finish(x * rsqrt(mean square + eps), column) is the result.
template <class Finish>
void run_composed_norm(const OperationRequest& request, double standard_eps, OperationCodes codes,
                       const Finish& finish) {
  if (request.x.empty()) return;
  const std::vector<float> means = mean_squares(request);
  const float eps = static_cast<float>(request.eps.value_or(standard_eps));
  for_rows(request, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const float rstd = narrow::sfu_rsqrt(means[r] + eps);
      for (std::size_t i = 0; i < request.cols; ++i)
        codes[r * request.cols + i] = finish(request.x[r * request.cols + i] * rstd, i);
    }
  });
}

}  // namespace

std::string composed_norm_kernel(const OperationRequest& request) {
  if (!is_operation_type(request.type)) return {};
  OperationRequest squares = request;
  squares.type = "fp32"_fmt;
  const std::string mean = sum_kernel(squares, torch_2_10_sum);
  return mean.empty() ? mean : "pow, mean (" + mean + "), add, rsqrt, mul" + (request.w.empty() ? "" : ", mul");
}

void run_composite_rms_norm(const OperationRequest& request, OperationCodes codes) {
  constexpr double eps = 0x1p-23;  // that of FP32
  run_composed_norm(request, eps, codes, [&](float scaled, std::size_t i) {
    return store_code(request.w.empty() ? scaled : scaled * request.w[i], request.type);
  });
}

// Two roundings to the type: before the weight and after it.
void run_huggingface_rms_norm(const OperationRequest& request, OperationCodes codes) {
  constexpr double eps = 1e-6;
  run_composed_norm(request, eps, codes, [&](float scaled, std::size_t i) {
    if (request.w.empty()) return store_code(scaled, request.type);
    return store_code(round_to(scaled, request.type) * request.w[i], request.type);
  });
}

}  // namespace narrow::detail
