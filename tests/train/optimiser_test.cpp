// The optimisers against scalar loops written from torch's documentation, in FP32 and in narrow formats; how BF16
// parameters stall and what helps. tests/train/torch_reference_test.cpp compares with torch itself.
#include "narrow/train/run/optimiser.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "narrow/base/random.hpp"
#include "narrow/round/round_to.hpp"
#include "tensor/files.hpp"

using namespace narrow::train;
using narrow::operator""_fmt;

namespace {

constexpr narrow::Format brain = "bf16"_fmt, binary16 = "fp16"_fmt;

Parameter<float> make_parameter(std::size_t n, float value, bool decays = true) {
  return {"p", {{n}, std::vector<float>(n, value)}, {{n}, std::vector<float>(n)}, decays};
}

float noise(std::uint64_t seed, std::uint64_t i) {  // in (-1, 1)
  return static_cast<float>(static_cast<std::int64_t>(narrow::random_bits(seed, i) >> 40) - (1 << 23)) * 0x1p-23f;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TrainingPolicy all_in(const narrow::Format& f) {
  const Precision p{.format = f};
  return {p, p, p, p, p, p, false};
}

// One element after the other, every stored value rounded by `r`.
struct PlainAdam {
  OptimiserSettings s;
  narrow::Format format;
  float m = 0, v = 0;
  int t = 0;
  float r(float x) const { return narrow::round_to(x, format); }
  float next(float p, float g) {
    ++t;
    p = r(p * static_cast<float>(1 - s.learning_rate * s.weight_decay));
    m = r(m + (g - m) * static_cast<float>(1 - s.beta1));
    v = r(v * static_cast<float>(s.beta2));
    v = r(v + static_cast<float>(1 - s.beta2) * g * g);
    double b1 = 1, b2 = 1;
    for (int i = 0; i < t; ++i) b1 *= s.beta1, b2 *= s.beta2;
    float d = r(std::sqrt(v));
    d = r(d / static_cast<float>(std::sqrt(1 - b2)));
    d = r(d + static_cast<float>(s.epsilon));
    return r(p + -static_cast<float>(s.learning_rate / (1 - b1)) * m / d);
  }
};

}  // namespace

TEST_CASE("train: AdamW is the plain loop in every format") {
  const OptimiserSettings settings{.learning_rate = 0.01, .weight_decay = 0.1};
  for (const narrow::Format f : {"fp32"_fmt, brain, binary16, "e5m2"_fmt}) {
    constexpr std::size_t n = 10007;  // three parts, the last one short
    Parameter<float> p = make_parameter(n, 0);
    for (std::size_t i = 0; i < n; ++i) p.value.data[i] = narrow::round_to(noise(1, i), f);
    std::vector<float> plain = p.value.data;
    std::vector<PlainAdam> adam(n, PlainAdam{settings, f});
    Optimiser optimiser(settings, all_in(f));
    optimiser.begin({&p});
    for (int step = 0; step < 5; ++step) {
      for (std::size_t i = 0; i < n; ++i) p.gradient.data[i] = narrow::round_to(noise(2 + step, i), f);
      optimiser.step({&p}, 1, step % 3);
      // beta^t by squaring and by multiplying may differ in the last bit of a double; the float made of it did not.
      for (std::size_t i = 0; i < n; ++i) plain[i] = adam[i].next(plain[i], p.gradient.data[i]);
      CHECK(same_bits(p.value.data, plain));  // in E5M2 squares vanish, and some parameters are NaN
    }
  }
}

TEST_CASE("train: SGD is the plain loop in every format") {
  const OptimiserSettings s{.kind = OptimiserKind::sgd, .learning_rate = 0.05, .weight_decay = 0.01};
  for (const narrow::Format f : {"fp32"_fmt, brain}) {
    constexpr std::size_t n = 5000;
    const auto r = [&](float x) { return narrow::round_to(x, f); };
    for (const bool decays : {true, false}) {
      Parameter<float> p = make_parameter(n, 0, decays);
      for (std::size_t i = 0; i < n; ++i) p.value.data[i] = r(noise(1, i));
      std::vector<float> plain = p.value.data, momentum(n);
      Optimiser optimiser(s, all_in(f));
      optimiser.begin({&p});
      for (int step = 0; step < 4; ++step) {
        for (std::size_t i = 0; i < n; ++i) p.gradient.data[i] = r(noise(2 + step, i));
        optimiser.step({&p}, 1);
        for (std::size_t i = 0; i < n; ++i) {
          const float g = decays ? r(p.gradient.data[i] + 0.01f * plain[i]) : p.gradient.data[i];
          momentum[i] = step == 0 ? g : r(r(momentum[i] * 0.9f) + g);
          plain[i] = r(plain[i] + -0.05f * momentum[i]);
        }
        CHECK(p.value.data == plain);
      }
    }
  }
}

TEST_CASE("train: the norms of a step are those of the change and of the values before it") {
  Parameter<float> p = make_parameter(9000, 2);
  std::fill(p.gradient.data.begin(), p.gradient.data.end(), 1.0f);
  Optimiser optimiser({.kind = OptimiserKind::sgd, .learning_rate = 0.5, .weight_decay = 0}, {});
  optimiser.begin({&p});
  const UpdateNorms norms = optimiser.step({&p}, 1);
  CHECK(norms.update == std::sqrt(9000 * 0.25));
  CHECK(norms.parameters == std::sqrt(9000 * 4.0));
}

// A step of -1e-3 from 1: half an ulp of BF16 below 1 is 2^-9 = 0.00195.
TEST_CASE("train: BF16 parameters stall below half an ulp and neither stochastic rounding nor Kahan nor FP32 does") {
  constexpr std::size_t n = 4096;
  constexpr int steps = 100;
  const OptimiserSettings settings{.kind = OptimiserKind::sgd, .learning_rate = 1e-3, .momentum = 0, .weight_decay = 0};
  const auto mean_after = [&](const TrainingPolicy& policy) {
    Parameter<float> p = make_parameter(n, 1);
    std::fill(p.gradient.data.begin(), p.gradient.data.end(), 1.0f);
    Optimiser optimiser(settings, policy);
    optimiser.begin({&p});
    for (int step = 0; step < steps; ++step)
      optimiser.step({&p}, narrow::random_bits(5, static_cast<std::uint64_t>(step)));
    double sum = 0;
    for (const float x : p.value.data) sum += static_cast<double>(x);
    return sum / n;
  };
  TrainingPolicy stochastic = all_in(brain), kahan = all_in(brain);
  stochastic.parameters.cast.rounding = narrow::Rounding::stochastic;
  kahan.kahan = true;
  CHECK(mean_after(all_in(brain)) == 1.0);  // not one of 100 steps arrived
  CHECK(mean_after({}) == doctest::Approx(0.9).epsilon(1e-5));
  // Each step of a parameter is unbiased with a variance below quantum^2 / 4, quantum 2^-8: the mean of 4096 parameters
  // after 100 steps has a deviation of at most sqrt(100 / 4096) * 2^-9 = 0.0003; four of them.
  CHECK(std::abs(mean_after(stochastic) - 0.9) < 0.0012);
  // What is not in the parameter is in the compensation: at most half an ulp is missing.
  CHECK(std::abs(mean_after(kahan) - 0.9) <= 0x1p-9);
}

TEST_CASE("train: stochastic rounding gives the same bits for any number of threads and others for another seed") {
  const auto run = [](int threads, std::uint64_t seed) {
    Parameter<float> p = make_parameter(20000, 1);
    for (std::size_t i = 0; i < p.gradient.size(); ++i) p.gradient.data[i] = noise(3, i);
    TrainingPolicy policy = all_in(brain);
    policy.parameters.cast.rounding = narrow::Rounding::stochastic;
    Optimiser optimiser({}, policy);
    optimiser.begin({&p});
    optimiser.step({&p}, seed, threads);
    return p.value.data;
  };
  CHECK(run(1, 1) == run(2, 1));
  CHECK(run(1, 1) == run(5, 1));
  CHECK(run(1, 1) != run(1, 2));
}

TEST_CASE("train: an element takes the random bits of its place in the parameter") {
  Parameter<float> p = make_parameter(9000, 1);
  for (std::size_t i = 0; i < p.gradient.size(); ++i) p.gradient.data[i] = noise(3, i);
  TrainingPolicy policy = all_in(brain);
  policy.parameters.cast.rounding = narrow::Rounding::stochastic;
  Optimiser optimiser({.kind = OptimiserKind::sgd, .learning_rate = 1, .weight_decay = 0}, policy);
  optimiser.begin({&p});
  optimiser.step({&p}, 77);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < p.value.size(); ++i) {
    const float gradient = narrow::round_to(noise(3, i), brain);  // as stored in the momentum
    const std::uint64_t random = narrow::random_bits(narrow::random_bits(narrow::random_bits(77, 0), 0), i);
    wrong += p.value.data[i] != narrow::round_to(1 - gradient, brain, policy.parameters.cast, random);
  }
  CHECK(wrong == 0);
}

// g * g of 1e-5 is 1e-10 and zero in FP16, and so is epsilon: 0 / 0 and x / 0.
TEST_CASE("train: Adam in FP16 divides by zero where squares vanish") {
  Parameter<float> p = make_parameter(4, 1);
  std::fill(p.gradient.data.begin(), p.gradient.data.end(), narrow::round_to(1e-5f, binary16));
  Optimiser optimiser({}, all_in(binary16));
  optimiser.begin({&p});
  const UpdateNorms norms = optimiser.step({&p}, 1);
  CHECK_FALSE(std::isfinite(norms.update));
}

TEST_CASE("train: numbers that no optimiser takes are refused") {
  using test::error_of;
  CHECK(error_of([] { check(OptimiserSettings{.learning_rate = 0}); }).find("learning rate") != std::string::npos);
  CHECK(error_of([] { check(OptimiserSettings{.momentum = 1}); }).find("momentum") != std::string::npos);
  CHECK(error_of([] { check(OptimiserSettings{.beta2 = 1.5}); }).find("betas") != std::string::npos);
  CHECK(error_of([] { check(OptimiserSettings{.clip = -1}); }).find("norm") != std::string::npos);
  CHECK(error_of([] { check(OptimiserSettings{.learning_rate = std::nan("")}); }) != "");
  CHECK(error_of([] { check(OptimiserSettings{}); }) == "");
}
