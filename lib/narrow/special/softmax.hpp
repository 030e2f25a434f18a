// The kernels of PyTorch's softmax along rows and of its backward pass: which thread of a block adds which element.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "narrow/special/operation_parts.hpp"

namespace narrow::detail {

enum class SoftmaxKernel { warp, registers, shared_memory, plain };

struct SoftmaxPlan {
  SoftmaxKernel kernel;
  std::size_t threads;  // that add a row: a warp or fewer, or a block
  std::size_t vector;   // elements in 16 bytes
};
SoftmaxPlan plan_softmax(std::size_t cols, const Format& type);
constexpr std::size_t most_softmax_threads = 1024;

// visit(thread, i) for all elements in ascending order, which is the order of each thread as well. first_element: where
// the row starts, in elements from an aligned address.
template <class Visit>
void deal_to_threads(const SoftmaxPlan& plan, std::size_t cols, std::size_t first_element, const Visit& visit) {
  std::size_t i = 0;
  if (plan.kernel == SoftmaxKernel::plain) {
    // As many elements as there are threads, one for each, lead to an aligned address.
    if (const std::size_t shift = first_element % plan.vector; shift != 0)
      for (; i < std::min(cols, plan.threads - shift); ++i) visit(i + shift, i);
  }
  if (plan.kernel == SoftmaxKernel::plain || plan.kernel == SoftmaxKernel::shared_memory) {
    // Vectors in turn; the plain kernel only as long as all threads have one.
    const std::size_t left = cols - i, chunk = plan.vector * plan.threads, start = i;
    const std::size_t vectors = plan.kernel == SoftmaxKernel::plain ? left - left % chunk : left;
    for (; i < start + vectors; ++i) visit((i - start) / plan.vector % plan.threads, i);
  }
  for (std::size_t start = i; i < cols; ++i) visit((i - start) % plan.threads, i);
}

// The maximum of a row and the sum of its exponentials, which are left in `exponentials`.
struct SoftmaxRow {
  float max, sum;
};
SoftmaxRow add_exponentials(const SoftmaxPlan& plan, std::span<const float> row, std::size_t first_element,
                            std::span<float> exponentials);

// finish(row, its exponentials, maximum and sum, its number) for all rows.
template <class Finish>
void run_softmax_rows(const OperationRequest& request, const Finish& finish) {
  const SoftmaxPlan plan = plan_softmax(request.cols, request.type);
  for_rows(request, [&](std::size_t begin, std::size_t end) {
    std::vector<float> exponentials(request.cols);
    for (std::size_t r = begin; r < end; ++r) {
      const std::size_t first = r * request.cols;
      const std::span<const float> row = request.x.subspan(first, request.cols);
      const SoftmaxRow all = add_exponentials(plan, row, first, exponentials);
      finish(row, exponentials, all, r);
    }
  });
}

}  // namespace narrow::detail
