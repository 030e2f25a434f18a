// softmax and log_softmax backward: the sum of a row of gradients, then each element less its share.
#include <array>
#include <cmath>
#include <vector>

#include "narrow/special/operation_kernels.hpp"
#include "narrow/special/operation_parts.hpp"
#include "narrow/special/softmax.hpp"
#include "narrow/special/special.hpp"

namespace narrow::detail {

namespace {

// Half as many threads as would have a vector each.
SoftmaxPlan plan_softmax_backward(std::size_t cols, const Format& type) {
  constexpr std::size_t longest_of_warp = 1024, shared_bytes = 49152;
  const std::size_t bytes = element_bytes(type), vector = 16 / bytes;
  if (cols <= longest_of_warp)
    return {SoftmaxKernel::warp, std::min<std::size_t>(std::bit_ceil(std::max<std::size_t>(cols, 1)), 32), vector};
  const std::size_t threads =
      std::max<std::size_t>(std::bit_ceil(std::min(cols / vector, most_softmax_threads) / 2), 32);
  const bool fits = cols < (shared_bytes - threads / 32 * sizeof(float)) / bytes && cols % vector == 0;
  return {fits ? SoftmaxKernel::shared_memory : SoftmaxKernel::plain, threads, vector};
}

// The plain kernel adds the threads of a warp one after the other, then the warps; the others add in trees.
float fold_softmax_threads(const SoftmaxPlan& plan, float* sums) {
  const auto add = [](float a, float b) { return a + b; };
  if (plan.kernel == SoftmaxKernel::shared_memory) return fold_block(sums, plan.threads / 32, add);
  if (plan.kernel == SoftmaxKernel::warp) {
    fold_halves(sums, plan.threads, 1, add);
    return sums[0];
  }
  float all = 0;
  for (std::size_t first = 0; first < plan.threads; first += 32) {
    float warp = 0;
    for (std::size_t i = 0; i < 32; ++i) warp += sums[first + i];
    all += warp;
  }
  return all;
}

// Element i of the gradient is incoming(i), of the type, less the share share(y) of the row's sum.
template <class Incoming, class Share>
void run_softmax_rows_backward(const OperationRequest& request, OperationCodes codes, const Incoming& incoming,
                               const Share& share) {
  const SoftmaxPlan plan = plan_softmax_backward(request.cols, request.type);
  for_rows(request, [&](std::size_t begin, std::size_t end) {
    std::array<float, most_softmax_threads> sums;
    for (std::size_t r = begin; r < end; ++r) {
      const std::size_t first = r * request.cols;
      std::fill_n(sums.begin(), plan.threads, 0.0f);
      deal_to_threads(plan, request.cols, first,
                      [&](std::size_t thread, std::size_t i) { sums[thread] += incoming(first + i); });
      const float sum = fold_softmax_threads(plan, sums.data());
      for (std::size_t i = first; i < first + request.cols; ++i)
        codes[i] = store_code(std::fma(-share(request.x[i]), sum, incoming(i)), request.type);
    }
  });
}

}  // namespace

std::string softmax_backward_kernel(const OperationRequest& request) {
  if (!is_operation_type(request.type)) return {};
  switch (plan_softmax_backward(request.cols, request.type).kernel) {
    case SoftmaxKernel::warp: return "softmax_warp_backward";
    case SoftmaxKernel::shared_memory: return "cunn_SoftMaxBackwardSmem";
    default: return "cunn_SoftMaxBackward";
  }
}

// The products of y and g are a tensor of their own.
void run_softmax_backward(const OperationRequest& request, OperationCodes codes) {
  std::vector<float> products(request.x.size());
  for (std::size_t i = 0; i < products.size(); ++i) products[i] = round_to(request.g[i] * request.x[i], request.type);
  run_softmax_rows_backward(
      request, codes, [&](std::size_t i) { return products[i]; }, [](float y) { return y; });
}

void run_log_softmax_backward(const OperationRequest& request, OperationCodes codes) {
  run_softmax_rows_backward(
      request, codes, [&](std::size_t i) { return request.g[i]; }, [](float y) { return narrow::cuda_expf(y); });
}

}  // namespace narrow::detail
