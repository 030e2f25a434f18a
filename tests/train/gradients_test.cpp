#include "narrow/train/run/gradients.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>

#include "narrow/round/round_to.hpp"

using namespace narrow::train;
using narrow::operator""_fmt;

namespace {

Parameter<float> with_gradient(std::vector<float> gradient) {
  const std::vector<std::size_t> shape{gradient.size()};
  return {"p", {shape, std::vector<float>(gradient.size())}, {shape, std::move(gradient)}, true};
}

constexpr float infinite = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("train: gradients of all parameters go into one array and back") {
  Parameter<float> a = with_gradient({1, 2}), b = with_gradient({3});
  CHECK(gather_gradients({&a, &b}) == std::vector<float>{1, 2, 3});
  scatter_gradients({4, 5, 6}, {&a, &b});
  CHECK(a.gradient.data == std::vector<float>{4, 5});
  CHECK(b.gradient.data == std::vector<float>{6});
}

// 2048 + 1 is no FP16 number: a sum over micro-batches in FP16 stops there.
TEST_CASE("train: an accumulation in FP16 stops where its quantum is 2") {
  Parameter<float> p = with_gradient({1});
  const auto sum_of = [&](int micro_batches, const Precision& precision) {
    std::vector<float> sum;
    for (int i = 0; i < micro_batches; ++i) accumulate(sum, {&p}, precision, 1);
    return sum.at(0);
  };
  CHECK(sum_of(5000, {}) == 5000);
  CHECK(sum_of(5000, {.format = "fp16"_fmt}) == 2048);
  CHECK(sum_of(5000, {.format = "bf16"_fmt}) == 256);
}

TEST_CASE("train: unscaling finds Inf and NaN before it multiplies") {
  Parameter<float> good = with_gradient({65536, -3}), bad = with_gradient({1, infinite}),
                   worse = with_gradient({std::nanf("")});
  CHECK_FALSE(unscale({&good}, 65536));
  CHECK(good.gradient.data == std::vector<float>{1, -3 * 0x1p-16f});
  CHECK(unscale({&good, &bad}, 2));
  CHECK(bad.gradient.data == std::vector<float>{0.5f, infinite});
  CHECK(unscale({&worse}, 1));
}

TEST_CASE("train: clipping scales all gradients by one factor and only down") {
  Parameter<float> a = with_gradient({3}), b = with_gradient({0, 4});
  const float norm = gradient_norm({&a, &b}, {}, 1);
  CHECK(norm == 5);
  CHECK(clip({&a, &b}, norm, 10, {}, 1) == 1);
  CHECK(a.gradient.data[0] == 3);
  const float factor = 1.0f / (5.0f + 1e-6f);
  CHECK(clip({&a, &b}, norm, 1, {}, 1) == factor);
  CHECK(a.gradient.data[0] == 3 * factor);
  CHECK(b.gradient.data[1] == 4 * factor);
}

// 300^2 + 300^2 ... : a norm of 67,082 does not fit in FP16, and the factor 1 / Inf deletes every gradient.
TEST_CASE("train: a norm that overflows in FP16 clips everything to zero") {
  Parameter<float> p = with_gradient(std::vector<float>(50000, 300));
  const float norm = gradient_norm({&p}, {.format = "fp16"_fmt}, 1);
  CHECK(norm == infinite);
  clip({&p}, norm, 1, {.format = "fp16"_fmt}, 1);
  CHECK(p.gradient.data == std::vector<float>(50000, 0));
}

TEST_CASE("train: a NaN norm makes every gradient NaN as in torch") {
  Parameter<float> p = with_gradient({3, 4}), bad = with_gradient({std::nanf("")});
  const float norm = gradient_norm({&p, &bad}, {}, 1);
  CHECK(std::isnan(norm));
  clip({&p, &bad}, norm, 1, {}, 1);
  CHECK(std::isnan(p.gradient.data[0]));
  CHECK(std::isnan(p.gradient.data[1]));
}

// The norm 257 lies between 256 and 258 in BF16, the factor 1 / 3 between two numbers too: stochastic rounding takes
// both of each over the seeds, and one gradient of 1 shows the factor.
TEST_CASE("train: stochastic clipping draws new random bits with every seed") {
  const Precision stochastic{"bf16"_fmt, {.rounding = narrow::Rounding::stochastic}};
  std::set<float> norms, factors;
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    Parameter<float> p = with_gradient({257});
    norms.insert(gradient_norm({&p}, stochastic, seed));
    Parameter<float> one = with_gradient({1});
    clip({&one}, 3, 1, stochastic, seed);
    factors.insert(one.gradient.data[0]);
  }
  CHECK(norms == std::set<float>{256, 258});
  CHECK(factors.size() == 2);
}
