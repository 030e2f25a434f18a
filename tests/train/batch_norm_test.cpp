// Batch norm against its definition in long double and central differences; what its running statistics are and do.
#include "narrow/train/operations/batch_norm.hpp"

#include <doctest/doctest.h>

#include "narrow/base/error.hpp"
#include "narrow/round/round_to.hpp"
#include "train/probe.hpp"

namespace narrow::train {

using trial::Probe;
using trial::random_tensor;

namespace {

struct Moments {
  long double mean = 0, squares = 0;  // squares: the sum of (x - mean)^2
};
Moments moments_of(const Tensor<double>& x, std::size_t channel) {
  Moments m;
  for (std::size_t i = 0; i < x.rows(); ++i) m.mean += x.row(i)[channel];
  m.mean /= static_cast<long double>(x.rows());
  for (std::size_t i = 0; i < x.rows(); ++i) {
    const long double d = x.row(i)[channel] - m.mean;
    m.squares += d * d;
  }
  return m;
}

// A few roundings of numbers around 1 in double.
constexpr double few_roundings = 64 * 0x1p-53;

}  // namespace

TEST_CASE("train: gradients of batch norm are central differences in training and in evaluation") {
  for (const bool is_training : {true, false}) {
    Store<double> store({}, 1);
    BatchNorm<double> norm(store, "norm", 5);
    trial::shake(store);
    Tensor<double> x = random_tensor({3, 2, 2, 5}, 1), y, dx;
    norm.forward(random_tensor({7, 5}, 4), y);  // running statistics of another batch
    store.step.is_training = is_training;
    norm.forward(x, y);
    const Probe probe(y.shape);
    norm.backward(probe.weights, dx);
    trial::check_all(store, x, dx, [&] { return norm.forward(x, y), probe(y); });
  }
}

TEST_CASE("train: batch norm and its running statistics are their definition") {
  Store<double> store({}, 1);
  BatchNorm<double> norm(store, "norm", 3);
  trial::shake(store);
  const std::vector<double> gain = store.parameters()[0]->value.data, bias = store.parameters()[1]->value.data;
  Tensor<double> y;
  long double running[3][2] = {{0, 1}, {0, 1}, {0, 1}};
  const auto check = [&](const Tensor<double>& x, std::size_t j, long double mean, long double variance) {
    for (std::size_t i = 0; i < x.rows(); ++i) {
      const long double h = (x.row(i)[j] - mean) / std::sqrt(variance + 1e-5L);
      CHECK(std::abs(static_cast<double>(h * gain[j] + bias[j] - y.row(i)[j])) <= few_roundings);
    }
  };
  for (std::uint64_t batch = 0; batch < 4; ++batch) {
    const Tensor<double> x = random_tensor({9, 3}, batch);
    norm.forward(x, y);
    for (std::size_t j = 0; j < 3; ++j) {
      const Moments m = moments_of(x, j);
      check(x, j, m.mean, m.squares / 9);
      running[j][0] = 0.9L * running[j][0] + 0.1L * m.mean;
      running[j][1] = 0.9L * running[j][1] + 0.1L * m.squares / 8;
    }
  }
  const std::vector<LayerState> states = store.states();
  REQUIRE(states.size() == 2);
  CHECK(states[0].name == "norm.running_mean");
  CHECK(states[1].name == "norm.running_var");
  for (std::size_t j = 0; j < 3; ++j)
    for (std::size_t s = 0; s < 2; ++s)
      CHECK(states[s].values[j] == doctest::Approx(static_cast<double>(running[j][s])).epsilon(0x1p-23));  // as floats
  store.step.is_training = false;
  const Tensor<double> one = random_tensor({1, 3}, 9);  // a single row is enough to evaluate
  norm.forward(one, y);
  for (std::size_t j = 0; j < 3; ++j) check(one, j, running[j][0], running[j][1]);
  CHECK(store.states()[0].values == states[0].values);
  CHECK(store.states()[1].values == states[1].values);
  store.step.is_training = true;
  CHECK_THROWS_AS(norm.forward(one, y), Error);
}

// A mean of 1 batch after batch: m + 0.1 (1 - m) rounded to BF16 stands still once 0.1 (1 - m) is less than half a
// quantum, 2^-9; at 1 - 5 * 2^-8 it is half, a tie that goes to the even 1 - 4 * 2^-8. FP32 comes within 2^-20.
TEST_CASE("train: a running mean in BF16 stands still before it arrives") {
  for (const bool is_narrow : {false, true}) {
    Policy policy;
    if (is_narrow) policy.training.buffers.format = "bf16"_fmt;
    Store<float> store(policy, 1);
    BatchNorm<float> norm(store, "norm", 1);
    Tensor<float> y;
    for (int batch = 0; batch < 200; ++batch) norm.forward({{2, 1}, {0.5f, 1.5f}}, y);
    const float mean = store.states()[0].values[0];
    CHECK((is_narrow ? mean == 1 - 4 * 0x1p-8f : std::abs(mean - 1) < 0x1p-20f));
  }
}

TEST_CASE("train: batch norm in FP16 arithmetic squares 300 to infinity") {
  for (const bool is_narrow : {false, true}) {
    Policy policy;
    if (is_narrow) policy[Operation::batch_norm].arithmetic.format = "fp16"_fmt;
    Store<float> store(policy, 1);
    BatchNorm<float> norm(store, "norm", 1);
    Tensor<float> y;
    norm.forward({{2, 1}, {300, -300}}, y);
    CHECK(y.data[0] == (is_narrow ? 0.0f : 1.0f));
  }
}

}  // namespace narrow::train
