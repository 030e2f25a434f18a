// The same statistics for each block of a matrix: rows, 1 x N pieces of rows, N x N tiles; and how a number of the blocks
// is distributed.
//
//   const std::vector<float> matrix(4 * 256, 1.0F);
//   const std::vector<float> largest_of = block_amax(matrix, {.rows = 4, .cols = 256, .block_rows = 1, .block_cols = 128});
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "narrow/array/statistics.hpp"

namespace narrow {

// A matrix of floats, row by row, cut into blocks of block_rows x block_cols; the last ones may be smaller.
struct BlockShape {
  std::size_t rows = 0, cols = 0;
  std::size_t block_rows = 1, block_cols = 1;

  static BlockShape by_row(std::size_t rows, std::size_t cols) { return {rows, cols, 1, cols}; }
  static BlockShape by_piece(std::size_t rows, std::size_t cols, std::size_t n) { return {rows, cols, 1, n}; }
  static BlockShape by_tile(std::size_t rows, std::size_t cols, std::size_t n) { return {rows, cols, n, n}; }
  std::size_t grid_rows() const { return (rows + block_rows - 1) / block_rows; }
  std::size_t grid_cols() const { return (cols + block_cols - 1) / block_cols; }
};

// Largest finite magnitude of each block, row by row of the grid of blocks.
std::vector<float> block_amax(std::span<const float> data, const BlockShape& shape, int threads = 0);

// Statistics of each block, in the same order.
std::vector<Statistics> block_statistics(std::span<const float> data, const BlockShape& shape,
                                         std::span<const FormatCast> formats, double scale = 1, int threads = 0);

// Extremes, mean, standard deviation and quantiles (nearest rank) of some numbers.
struct Distribution {
  std::size_t count = 0;
  double min = 0, max = 0, mean = 0, deviation = 0;
  double p01 = 0, p10 = 0, p50 = 0, p90 = 0, p99 = 0;
};
// Of values in any order.
Distribution distribution(std::vector<double> values);

}  // namespace narrow
