#include "narrow/special/softmax.hpp"

#include <array>
#include <cmath>
#include <vector>

#include "narrow/special/operation_kernels.hpp"
#include "narrow/special/operation_parts.hpp"
#include "narrow/special/special.hpp"

namespace narrow::detail {

SoftmaxPlan plan_softmax(std::size_t cols, const Format& type) {
  constexpr std::size_t longest_of_warp = 2048, most_registers = 9, shared_bytes = 49152 - 32 * sizeof(float);
  const std::size_t bytes = element_bytes(type), vector = 16 / bytes;
  if (cols <= longest_of_warp)
    return {SoftmaxKernel::warp, std::min<std::size_t>(std::bit_ceil(std::max<std::size_t>(cols, 1)), 32), vector};
  if (cols <= most_registers * most_softmax_threads) return {SoftmaxKernel::registers, most_softmax_threads, vector};
  const bool fits = cols < shared_bytes / bytes && cols % vector == 0;
  return {fits ? SoftmaxKernel::shared_memory : SoftmaxKernel::plain, most_softmax_threads, vector};
}

SoftmaxRow add_exponentials(const SoftmaxPlan& plan, std::span<const float> row, std::size_t first_element,
                            std::span<float> exponentials) {
  // The kernels do not agree on the maximum of a NaN. It does not matter: the exponential of that element is NaN, so is
  // the sum, and with it the row. A row of -Inf ends in NaN too, whether its maximum is -Inf or, as in the kernels with
  // a whole block, -FLT_MAX.
  float max = row.empty() ? 0 : row[0];
  for (const float x : row) max = max < x ? x : max;

  std::array<float, most_softmax_threads> sums;
  std::fill_n(sums.begin(), plan.threads, 0.0f);
  deal_to_threads(plan, row.size(), first_element, [&](std::size_t thread, std::size_t i) {
    exponentials[i] = narrow::cuda_expf(row[i] - max);
    sums[thread] += exponentials[i];
  });
  const auto add = [](float a, float b) { return a + b; };
  if (plan.kernel != SoftmaxKernel::warp) return {max, fold_block(sums.data(), plan.threads / 32, add)};
  fold_halves(sums.data(), plan.threads, 1, add);
  return {max, sums[0]};
}

namespace {

struct SoftmaxRowDouble {
  double max, sum;
};
SoftmaxRowDouble add_exponentials_double(std::span<const float> row) {
  SoftmaxRowDouble all{row.empty() ? 0.0 : static_cast<double>(row[0]), 0};
  for (const float x : row) all.max = std::max(all.max, static_cast<double>(x));
  for (const float x : row) all.sum += std::exp(static_cast<double>(x) - all.max);
  return all;
}

}  // namespace

std::string softmax_kernel(const OperationRequest& request) {
  if (!is_operation_type(request.type)) return {};
  const SoftmaxPlan plan = plan_softmax(request.cols, request.type);
  switch (plan.kernel) {
    case SoftmaxKernel::warp: return "softmax_warp_forward";
    case SoftmaxKernel::registers: return "cunn_SoftMaxForwardReg";
    case SoftmaxKernel::shared_memory: return "cunn_SoftMaxForwardSmem";
    case SoftmaxKernel::plain: break;
  }
  return "cunn_SoftMaxForward";
}

void run_softmax(const OperationRequest& request, OperationCodes codes) {
  run_softmax_rows(request, [&](auto row, const auto& exponentials, const SoftmaxRow& all, std::size_t r) {
    for (std::size_t i = 0; i < row.size(); ++i)
      codes[r * request.cols + i] = store_code(exponentials[i] / all.sum, request.type);
  });
}

void run_log_softmax(const OperationRequest& request, OperationCodes codes) {
  run_softmax_rows(request, [&](auto row, const auto&, const SoftmaxRow& all, std::size_t r) {
    const float log_sum = narrow::cuda_logf(all.sum);
    for (std::size_t i = 0; i < row.size(); ++i)
      codes[r * request.cols + i] = store_code(row[i] - all.max - log_sum, request.type);
  });
}

void run_softmax_double(const OperationRequest& request, OperationCodes codes) {
  for_rows(request, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const SoftmaxRowDouble all = add_exponentials_double(request.x.subspan(r * request.cols, request.cols));
      for (std::size_t i = r * request.cols; i < (r + 1) * request.cols; ++i)
        codes[i] = store_code(std::exp(static_cast<double>(request.x[i]) - all.max) / all.sum, request.type);
    }
  });
}

void run_log_softmax_double(const OperationRequest& request, OperationCodes codes) {
  for_rows(request, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const SoftmaxRowDouble all = add_exponentials_double(request.x.subspan(r * request.cols, request.cols));
      const double log_sum = std::log(all.sum);
      for (std::size_t i = r * request.cols; i < (r + 1) * request.cols; ++i)
        codes[i] = store_code(static_cast<double>(request.x[i]) - all.max - log_sum, request.type);
    }
  });
}

}  // namespace narrow::detail
