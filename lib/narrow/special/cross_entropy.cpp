// cross_entropy: log_softmax rounded to the type, then the mean of the targets' losses in one block of threads.
#include <array>
#include <cmath>
#include <vector>

#include "narrow/special/operation_kernels.hpp"
#include "narrow/special/operation_parts.hpp"
#include "narrow/special/softmax.hpp"
#include "narrow/special/special.hpp"

namespace narrow::detail {

namespace {

constexpr std::size_t fewest_loss_threads = 32, most_loss_threads = 1024;

// The power of two that is nearest to rows / 16 (on a scale of logarithms).
std::size_t loss_threads(std::size_t rows) {
  const std::size_t sixteenth = rows / 16;
  if (sixteenth < fewest_loss_threads) return fewest_loss_threads;
  if (sixteenth >= most_loss_threads) return most_loss_threads;
  return std::size_t{1} << static_cast<int>(std::round(std::log2(static_cast<double>(sixteenth))));
}

bool counts(const OperationRequest& request, std::size_t row) { return request.target[row] != request.ignore_index; }
std::size_t target_of(const OperationRequest& request, std::size_t row) {
  return static_cast<std::size_t>(request.target[row]);
}

// The log-probability of each row's target, as memory holds it.
std::vector<float> target_log_probabilities(const OperationRequest& request) {
  const SoftmaxPlan plan = plan_softmax(request.cols, request.type);
  std::vector<float> logs(request.rows);
  for_rows(request, [&](std::size_t begin, std::size_t end) {
    std::vector<float> exponentials(request.cols);
    for (std::size_t r = begin; r < end; ++r) {
      if (!counts(request, r)) continue;
      const std::size_t first = r * request.cols;
      const std::span<const float> row = request.x.subspan(first, request.cols);
      const SoftmaxRow all = add_exponentials(plan, row, first, exponentials);
      logs[r] = round_to(row[target_of(request, r)] - all.max - narrow::cuda_logf(all.sum), request.type);
    }
  });
  return logs;
}

}  // namespace

std::string cross_entropy_backward_kernel(const OperationRequest& request) {
  const std::string softmax = softmax_backward_kernel(request);
  return softmax.empty() ? softmax : "nll_loss_backward_reduce_cuda_kernel_2d, " + softmax;
}

// The log-probabilities and the gradient of each, of which a row has one, pass through memory.
void run_cross_entropy_backward(const OperationRequest& request, OperationCodes codes) {
  const Format& type = request.type;
  float count = 0;
  for (std::size_t row = 0; row < request.rows; ++row) count += counts(request, row) ? 1.0f : 0.0f;
  const float g = request.g.empty() ? 1 : request.g[0], share = -round_to(g / round_to(count, type), type);
  run_softmax_rows(request, [&](std::span<const float> row, const auto&, const SoftmaxRow& all, std::size_t r) {
    const float log_sum = narrow::cuda_logf(all.sum), sum = counts(request, r) ? 0 + share : 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const float own = counts(request, r) && i == target_of(request, r) ? share : 0;
      const float log = round_to(row[i] - all.max - log_sum, type);
      codes[r * request.cols + i] = store_code(std::fma(-narrow::cuda_expf(log), sum, own), type);
    }
  });
}

std::string cross_entropy_kernel(const OperationRequest& request) {
  const std::string softmax = softmax_kernel(request);
  if (softmax.empty()) return {};
  return softmax + ", nll_loss_forward_reduce_cuda_kernel_2d T=" + std::to_string(loss_threads(request.rows));
}

void run_cross_entropy(const OperationRequest& request, OperationCodes codes) {
  const std::vector<float> logs = target_log_probabilities(request);
  const std::size_t threads = loss_threads(request.rows);
  std::array<float, most_loss_threads> losses{}, weights{};
  for (std::size_t row = 0; row < request.rows; ++row) {
    if (!counts(request, row)) continue;
    losses[row % threads] -= logs[row];
    weights[row % threads] += 1;
  }
  const auto add = [](float a, float b) { return a + b; };
  fold_halves(losses.data(), threads, 1, add);
  fold_halves(weights.data(), threads, 1, add);
  codes[0] = store_code(losses[0] / weights[0], request.type);  // no row that counts: NaN
}

void run_cross_entropy_double(const OperationRequest& request, OperationCodes codes) {
  std::vector<double> losses(request.rows);
  for_rows(request, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      if (!counts(request, r)) continue;
      const std::span<const float> row = request.x.subspan(r * request.cols, request.cols);
      const double max = static_cast<double>(*std::max_element(row.begin(), row.end()));
      double sum = 0;
      for (const float x : row) sum += std::exp(static_cast<double>(x) - max);
      losses[r] = std::log(sum) - (static_cast<double>(row[target_of(request, r)]) - max);
    }
  });
  double total = 0, count = 0;
  for (std::size_t row = 0; row < request.rows; ++row)
    if (counts(request, row)) total += losses[row], count += 1;
  codes[0] = store_code(total / count, request.type);
}

}  // namespace narrow::detail
