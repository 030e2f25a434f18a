#include "analysis/experiments/operations.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "analysis/recordings/inputs.hpp"
#include "narrow/base/error.hpp"
#include "narrow/format/find_format.hpp"

using namespace analysis;
using narrow::Format;
using narrow::operator""_fmt;

namespace {

constexpr Format bf16 = "bf16"_fmt, fp16 = "fp16"_fmt, fp32 = "fp32"_fmt, e4m3 = "e4m3"_fmt;

Numbers made(std::size_t n, double deviation, std::uint64_t seed) {
  const std::vector<float> v = normal_values(n, deviation, seed);
  return {v.begin(), v.end()};
}

}  // namespace

TEST_CASE("analysis: a sum of ones in a format stops at two to its significand bits") {
  const Numbers ones(4096, 1.0);
  CHECK(sum_of(ones, 4096, {&bf16})[0] == 256);
  CHECK(sum_of(ones, 4096, {&fp16})[0] == 2048);
  CHECK(sum_of(ones, 4096, {&fp32})[0] == 4096);
  CHECK(sum_of(ones, 4096, {&e4m3})[0] == 16);
  CHECK(sum_of(ones, 1024, {}) == Numbers{1024, 1024, 1024, 1024});
}

TEST_CASE("analysis: the reference of every operation is its formula in double") {
  const Numbers x = {0.5, -1, 2, 0};
  const Numbers p = softmax_of(x, 4, {});
  CHECK(std::fabs(p[0] + p[1] + p[2] + p[3] - 1) < 1e-15);
  CHECK(std::fabs(p[2] / p[3] - std::exp(2.0)) < 1e-14);
  CHECK(std::fabs(cross_entropy_of(x, 4, {})[0] + std::log(p[2])) < 1e-14);
  CHECK(variance_of(Numbers{1, 3}, 2, {})[0] == 1);
  const Numbers n = layer_norm_of(Numbers{1, 3}, 2, {});
  CHECK(std::fabs(n[1] - 1 / std::sqrt(1 + 1e-5)) < 1e-15);
  CHECK(n[0] == -n[1]);
  CHECK(gelu_of(Numbers{0}, {})[0] == 0);
  CHECK(std::fabs(gelu_of(Numbers{1}, {})[0] - 0.8413447460685429) < 1e-15);
  CHECK(add_of(Numbers{1}, Numbers{0x1p-9}, {&bf16})[0] == 1);
  CHECK_THROWS_AS(add_of(Numbers{1, 2}, Numbers{1}, {}), narrow::Error);
}

TEST_CASE("analysis: what underflows before a logarithm or overflows in exp is not finite") {
  CHECK(error_of(log_of(Numbers{1e-9, 0.5}, {&fp16}), log_of(Numbers{1e-9, 0.5}, {})).not_finite == 0.5);
  // One of two is Inf: the error of the other is not that of the whole.
  CHECK(std::isnan(error_of(log_of(Numbers{1e-9, 0.5}, {&fp16}), log_of(Numbers{1e-9, 0.5}, {})).relative));
  const OperationError beyond = error_of({1, HUGE_VAL}, {1, HUGE_VAL});  // no format could do better
  CHECK((beyond.relative == 0 && beyond.not_finite == 0));
  CHECK(std::isnan(error_of({0, 0}, {0, 0}).relative));
  CHECK(error_of(exp_of(Numbers{12}, {&fp16}), exp_of(Numbers{12}, {})).not_finite == 1);
  CHECK(std::isnan(error_of(exp_of(Numbers{12}, {&fp16}), exp_of(Numbers{12}, {})).relative));
  CHECK(error_of(exp_of(Numbers{11}, {&fp16}), exp_of(Numbers{11}, {})).not_finite == 0);
}

TEST_CASE("analysis: a product of small integers is exact in every format with FP32 sums") {
  Numbers x, w;
  for (int i = 0; i < 64; ++i) x.push_back(i % 3 - 1), w.push_back(i % 5 - 2);
  const Numbers exact = matmul_of(x, w, 32, nullptr, false);
  REQUIRE(exact.size() == 4);
  for (const char* name : {"fp32", "fp16", "bf16", "e4m3", "e5m2"}) {
    CAPTURE(name);
    const Format f = *narrow::find_format(name);
    CHECK(matmul_of(x, w, 32, &f, false) == exact);
  }
}

// One rounding of the inputs and one of the result, each up to half a quantum: 2^-11 for FP16, and they average out.
TEST_CASE("analysis: products with FP32 sums err by the format's epsilon and narrow sums by several") {
  const Numbers x = made(64 * 256, 1, 1), w = made(64 * 256, 0.05, 2), exact = matmul_of(x, w, 256, nullptr, false);
  for (const Format& f : {fp16, bf16}) {
    const double half_quantum = std::ldexp(1.0, -f.mantissa_bits - 1);
    const double wide = error_of(matmul_of(x, w, 256, &f, false), exact).relative;
    const double narrow_sums = error_of(matmul_of(x, w, 256, &f, true), exact).relative;
    CHECK(wide < 1.5 * half_quantum);
    CHECK(wide > 0.2 * half_quantum);
    CHECK(narrow_sums > 3 * wide);
  }
}

// Windows of a line of 4 places with 2 channels, and of a square of 3 places a side, by hand.
TEST_CASE("analysis: windows are what a kernel of three sees") {
  CHECK(windows_of(Numbers{1, 2, 3, 4, 5, 6, 7, 8}, 1, 4, 2) == Numbers{1, 2, 3, 4, 5, 6, 3, 4, 5, 6, 7, 8});
  CHECK(windows_of(Numbers{1, 2, 3, 4, 5, 6, 7, 8, 9}, 2, 3, 1) == Numbers{1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(windows_of(Numbers(64, 1), 3, 4, 1) == Numbers(8 * 27, 1));
  CHECK_THROWS_AS(windows_of(Numbers(7, 1), 1, 4, 2), narrow::Error);
}

TEST_CASE("analysis: batch norm is over the rows, and its running statistics come to rest") {
  const Numbers y = batch_norm_of(Numbers{1, 10, 3, 30}, 2, {});  // two channels
  REQUIRE(y.size() == 4);
  CHECK(std::fabs(y[1] - 1 / std::sqrt(1 + 1e-5)) < 1e-15);
  CHECK(std::fabs(y[3] - 10 / std::sqrt(100 + 1e-5)) < 1e-15);
  Numbers x;
  for (int i = 0; i < 8; ++i) x.push_back(i % 2 == 0 ? 0.5 : 1.5);  // mean 1, variance 2 / 7
  CHECK(std::fabs(running_of(x, 1, Statistic::mean, 300, {})[0] - 1) < 1e-12);
  CHECK(std::fabs(running_of(x, 1, Statistic::variance, 300, {})[0] - 2.0 / 7) < 1e-12);
  // Where they stand still when every operation is rounded; PyTorch's conversions say the same.
  constexpr Format e5m2 = "e5m2"_fmt;
  CHECK(running_of(x, 1, Statistic::mean, 300, {&fp16})[0] == 1 - 3 * 0x1p-11);
  CHECK(running_of(x, 1, Statistic::mean, 300, {&e5m2})[0] == 0.375);
  CHECK(std::isnan(running_of(Numbers{1, 2}, 2, Statistic::variance, 3, {})[0]));  // one row has no variance
}

TEST_CASE("analysis: a dot product and a mean squared error are their formulas") {
  CHECK(dot_of(Numbers{1, 2, 3, 4}, Numbers{5, 6, 7, 8}, 2, {}) == Numbers{17, 53});
  CHECK(mse_of(Numbers{1, 2, 3, 4}, Numbers{5, 6, 7, 6}, 2, {}) == Numbers{16, 10});
  CHECK(mse_of(Numbers{300}, Numbers{0}, 1, {&fp16})[0] == HUGE_VAL);
  CHECK_THROWS_AS(dot_of(Numbers{1}, Numbers{1, 2}, 1, {}), narrow::Error);
}
