// The four kernels of PyTorch's softmax along rows: which thread of a block adds which exponential.
#pragma once

#include <span>

#include "narrow/special/operation.hpp"

namespace narrow::detail {

enum class SoftmaxKernel { warp, registers, shared_memory, plain };

struct SoftmaxPlan {
  SoftmaxKernel kernel;
  std::size_t threads;  // that add a row: a warp or fewer, or 1024
  std::size_t vector;   // elements in 16 bytes
};
SoftmaxPlan plan_softmax(std::size_t cols, const Format& type);

// The maximum of a row and the sum of its exponentials, which are left in `exponentials`. first_element: where the row
// starts, in elements from an aligned address.
struct SoftmaxRow {
  float max, sum;
};
SoftmaxRow add_exponentials(const SoftmaxPlan& plan, std::span<const float> row, std::size_t first_element,
                            std::span<float> exponentials);

}  // namespace narrow::detail
