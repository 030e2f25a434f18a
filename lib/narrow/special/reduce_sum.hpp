// In which order PyTorch's reduce_kernel adds the rows of a matrix in FP32, or its columns.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace narrow::detail {

// What changed between versions.
struct SumOrder {
  int vector_of_16_bits;        // elements that a thread loads at once; 4 of FP32 always
  std::size_t vectorised_from;  // shorter rows are read element by element
  bool newer_trees;             // along x before y, and shuffles by 16, 8, 4, 2, 1; else y first, and 1, 2, 4, 8, 16
};
inline constexpr SumOrder torch_2_10_sum{8, 128, true};
inline constexpr SumOrder torch_2_9_sum{4, 129, false};

// A launch: blocks of width x height threads. A row is added by `threads` of a block (width, or all when it is split
// along y), in each of `blocks` blocks.
struct SumPlan {
  SumOrder order;
  std::size_t rows, cols;
  std::size_t vector;  // 1: element by element
  std::size_t width, height, threads, blocks;
};

// For an H200, which has 132 multiprocessors.
SumPlan plan_sum(std::size_t rows, std::size_t cols, std::size_t element_bytes, const SumOrder& order);
std::string describe(const SumPlan& plan);

// The sum of each row of x, whose first element is aligned to 16 bytes.
void sum_rows(const SumPlan& plan, std::span<const float> x, std::span<float> sums, int threads);

// The square root of the sum of squares, as linalg_vector_norm adds them; of two numbers or more.
float norm_of(std::span<const float> x);

// Columns: a thread adds `vector` of them next to each other. `threads` of a block add a column (1, or `height` where
// rows are split), in each of `blocks` blocks.
struct ColumnPlan {
  std::size_t rows, cols, vector, width, height, threads, blocks;
};
ColumnPlan plan_sum_columns(std::size_t rows, std::size_t cols);
void sum_columns(const ColumnPlan& plan, std::span<const float> x, std::span<float> sums, int threads);

// A mean is the sum times this, not a division.
inline float mean_factor(std::size_t rows, std::size_t cols) noexcept {
  return static_cast<float>(rows) / static_cast<float>(rows * cols);
}

}  // namespace narrow::detail
