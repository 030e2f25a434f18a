// Are the numbers of each block of a matrix those of a loop over its elements, ragged edges included?
#include "narrow/array/blocks.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "array/naive_statistics.hpp"
#include "narrow/base/error.hpp"

using narrow::BlockShape;
using narrow::FormatCast;

namespace {

std::vector<float> matrix(std::size_t rows, std::size_t cols) {
  return test::sprinkled<float>(rows * cols, test::row_of("e4m3").format);
}

// The elements of block (i, j), row by row.
std::vector<float> block(const std::vector<float>& data, const BlockShape& s, std::size_t i, std::size_t j) {
  std::vector<float> list;
  for (std::size_t r = i * s.block_rows; r < std::min(s.rows, (i + 1) * s.block_rows); ++r)
    for (std::size_t c = j * s.block_cols; c < std::min(s.cols, (j + 1) * s.block_cols); ++c)
      list.push_back(data[r * s.cols + c]);
  return list;
}

const std::vector<FormatCast>& formats() {
  static const std::vector<FormatCast> list = {{test::row_of("e4m3").format, {}},
                                               {test::row_of("e2m1").format, {.overflow = narrow::Overflow::saturate}},
                                               {test::row_of("bf16").format, {}}};
  return list;
}

void check(const BlockShape& s, double scale = 1, int threads = 1) {
  INFO(s.rows << " x " << s.cols << " in " << s.block_rows << " x " << s.block_cols);
  const std::vector<float> data = matrix(s.rows, s.cols);
  const std::vector<float> amax = narrow::block_amax(data, s, threads);
  const std::vector<narrow::Statistics> all = narrow::block_statistics(data, s, formats(), scale, threads);
  const std::size_t down = (s.rows + s.block_rows - 1) / s.block_rows,
                    across = (s.cols + s.block_cols - 1) / s.block_cols;
  CHECK(s.grid_rows() == down);
  CHECK(s.grid_cols() == across);
  REQUIRE(amax.size() == down * across);
  REQUIRE(all.size() == down * across);
  for (std::size_t i = 0; i < down; ++i)
    for (std::size_t j = 0; j < across; ++j) {
      const std::vector<float> elements = block(data, s, i, j);
      test::NaiveSums sums;
      const auto want = test::naive_statistics<float>(elements, formats(), scale, 0, sums);
      CHECK(test::differences(want, all[i * across + j], sums) == "");
      CHECK(static_cast<double>(amax[i * across + j]) == want.input.amax);
    }
}

}  // namespace

TEST_CASE("array: each row of a matrix has the statistics of its elements") {
  check(BlockShape::by_row(1, 1));
  check(BlockShape::by_row(7, 130));
  check(BlockShape::by_row(3, 2100), 0x1p4);
}

TEST_CASE("array: each piece of a row has the statistics of its elements and the last may be short") {
  for (const std::size_t n : {1u, 16u, 32u, 128u}) check(BlockShape::by_piece(5, 150, n));
  check(BlockShape::by_piece(3, 20, 100), 0.1);
}

TEST_CASE("array: each tile of a matrix has the statistics of its elements at ragged edges too") {
  for (const std::size_t n : {1u, 4u, 32u, 64u}) check(BlockShape::by_tile(37, 70, n), 2);
  check(BlockShape::by_tile(64, 64, 32));
  check({10, 17, 3, 5}, 0x1p-3);
}

TEST_CASE("array: blocks are the same for any number of threads") {
  for (const int threads : {2, 3, 7}) check(BlockShape::by_tile(50, 90, 4), 1, threads);
}

TEST_CASE("array: a matrix without elements has no blocks and a block without elements is refused") {
  CHECK(narrow::block_amax({}, BlockShape::by_tile(0, 5, 2)).empty());
  CHECK(narrow::block_statistics({}, BlockShape::by_piece(0, 0, 2), formats()).empty());
  const std::vector<float> data(12);
  CHECK_THROWS_AS(narrow::block_amax(data, BlockShape::by_tile(3, 4, 0)), narrow::Error);
  CHECK_THROWS_AS(narrow::block_amax(data, BlockShape::by_row(4, 4)), narrow::Error);
  CHECK_THROWS_AS(narrow::block_statistics(data, BlockShape::by_row(4, 4), formats()), narrow::Error);
}

TEST_CASE("array: the amax of a block leaves Inf and NaN out") {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> data = {inf, -3, nan, 2, -inf, nan, -0x1p-149f, 0x1.fffffep127f};
  CHECK(narrow::block_amax(data, BlockShape::by_piece(1, 8, 2)) == std::vector<float>{3, 2, 0, 0x1.fffffep127f});
}

// Quantiles by nearest rank: the smallest value with at least that share of the values at or below it.
TEST_CASE("array: a distribution has the extremes and moments and quantiles of its numbers") {
  // Mean and deviation are sums of at most 1000 terms, each rounded a few times.
  constexpr double moment_tolerance = 0x1p-40;
  for (const std::size_t n : {1u, 2u, 3u, 10u, 99u, 100u, 101u, 1000u}) {
    CAPTURE(n);
    std::vector<double> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<double>(test::mix(i) % 1000) - 300;
    const narrow::Distribution d = narrow::distribution(values);
    std::sort(values.begin(), values.end());
    const auto rank = [&](std::size_t percent) { return values[(percent * n + 99) / 100 - 1]; };
    CHECK(d.count == n);
    CHECK(d.min == values.front());
    CHECK(d.max == values.back());
    CHECK(d.p01 == rank(1));
    CHECK(d.p10 == rank(10));
    CHECK(d.p50 == rank(50));
    CHECK(d.p90 == rank(90));
    CHECK(d.p99 == rank(99));
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(n);
    double squares = 0;
    for (const double x : values) squares += (x - mean) * (x - mean);
    CHECK(test::is_near(mean, d.mean, 1000, moment_tolerance));
    CHECK(test::is_near(std::sqrt(squares / static_cast<double>(n)), d.deviation, 1000, moment_tolerance));
  }
  CHECK(narrow::distribution({}).count == 0);
  CHECK(narrow::distribution({2, 2, 2}).deviation < moment_tolerance);
}
