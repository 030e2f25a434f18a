#include "narrow/array/blocks.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "narrow/base/error.hpp"
#include "narrow/base/parallel.hpp"

namespace narrow {

namespace {

void check(std::span<const float> data, const BlockShape& s) {
  if (s.block_rows == 0 || s.block_cols == 0) throw Error("blocks: a block of " + std::to_string(s.block_rows) + " x " + std::to_string(s.block_cols) + " has no elements");
  if (s.cols != 0 && s.rows > data.size() / s.cols)
    throw Error("blocks: " + std::to_string(s.rows) + " x " + std::to_string(s.cols) + " elements, but the data has " + std::to_string(data.size()));
}

// Calls body(block, rows of that block as spans) for every block, threads over rows of blocks.
template <class Body>
void for_each_block(std::span<const float> data, const BlockShape& s, int threads, const Body& body) {
  if (s.rows == 0 || s.cols == 0) return;
  const std::size_t across = s.grid_cols();
  parallel_parts(s.grid_rows() * across, 64, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t b = begin; b < end; ++b) {
      const std::size_t top = b / across * s.block_rows, left = b % across * s.block_cols;
      const std::size_t height = std::min(s.block_rows, s.rows - top), width = std::min(s.block_cols, s.cols - left);
      body(b, [&](const auto& each_row) {
        for (std::size_t r = 0; r < height; ++r) each_row(data.subspan((top + r) * s.cols + left, width));
      });
    }
  });
}

}  // namespace

std::vector<float> block_amax(std::span<const float> data, const BlockShape& shape, int threads) {
  check(data, shape);
  std::vector<float> amax(shape.grid_rows() * shape.grid_cols());
  for_each_block(data, shape, threads, [&](std::size_t b, const auto& rows) {
    float top = 0;
    rows([&](std::span<const float> row) {
      for (const float x : row) {
        const float a = std::abs(x);
        top = a > top && a <= 0x1.fffffep+127f ? a : top;
      }
    });
    amax[b] = top;
  });
  return amax;
}

std::vector<Statistics> block_statistics(std::span<const float> data, const BlockShape& shape,
                                         std::span<const FormatCast> formats, double scale, int threads) {
  check(data, shape);
  const DefaultFloats guard;
  const StatisticsPass pass(formats, scale);
  std::vector<Statistics> out(shape.grid_rows() * shape.grid_cols());
  for_each_block(data, shape, threads, [&](std::size_t b, const auto& rows) {
    std::vector<float> block;
    rows([&](std::span<const float> row) { block.insert(block.end(), row.begin(), row.end()); });
    out[b] = pass(block, 0, 1);
  });
  return out;
}

Distribution distribution(std::vector<double> values) {
  const DefaultFloats guard;
  Distribution d;
  d.count = values.size();
  if (values.empty()) return d;
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  const auto rank = [&](double p) {
    const auto k = static_cast<std::size_t>(std::ceil(p * n));
    return values[std::min(values.size(), std::max<std::size_t>(k, 1)) - 1];
  };
  d.min = values.front(), d.max = values.back();
  d.p01 = rank(0.01), d.p10 = rank(0.10), d.p50 = rank(0.50), d.p90 = rank(0.90), d.p99 = rank(0.99);
  for (const double x : values) d.mean += x / n;
  for (const double x : values) d.deviation += (x - d.mean) * (x - d.mean) / n;
  d.deviation = std::sqrt(d.deviation);
  return d;
}

}  // namespace narrow
