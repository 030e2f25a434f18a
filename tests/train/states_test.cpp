// What a quantiser remembers: delayed scaling follows te-delayed, and a restored state continues with the same bits.
#include <doctest/doctest.h>

#include "narrow/base/error.hpp"
#include "narrow/base/random.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/train/models/model.hpp"
#include "narrow/train/operations/quantiser.hpp"

namespace narrow::train {

namespace {

Policy delayed_policy() {
  Policy p;
  OperationPolicy& o = p[Operation::linear];
  o.weights = o.activations = {"e4m3"_fmt, {}, Scaling::tensor_delayed};
  o.gradients = {"e5m2"_fmt, {}, Scaling::tensor_delayed};
  p.delayed.history = 3;
  return p;
}

ModelShape shape() {
  ModelShape s;
  s.inputs = 6, s.hidden = {8, 8}, s.classes = 3;
  return s;
}

Batch batch(std::uint64_t seed) {
  Batch b;
  b.size = 4;
  for (std::size_t i = 0; i < 24; ++i) b.inputs.push_back(static_cast<float>(random_bits(seed, i) % 100) / 7);
  for (std::size_t i = 0; i < 4; ++i) b.targets.push_back(static_cast<std::int32_t>(random_bits(seed, 100 + i) % 3));
  return b;
}

}  // namespace

TEST_CASE("train: delayed scaling uses the scale of the steps before") {
  const Policy policy = delayed_policy();
  Quantiser<float> q("x", Operation::linear, Role::activations, policy);
  DelayedState expected;
  TeDelayedScaling rule = policy.delayed;
  rule.fp8_max = 448;
  for (const float amax : {3.0f, 7.0f, 1000.0f, 2.0f, 2.0f, 2.0f, 0.0f, 5.0f}) {
    const std::vector<float> x = {amax, -amax / 3};
    q.keep(x, 1, 2, {});
    CHECK(q.over_cols({}).decode == 1 / expected.scale);
    CHECK(q.kept()[0] == round_to(amax * expected.scale, "e4m3"_fmt, {.overflow = Overflow::saturate}));
    q.end_step();
    expected = next(rule, expected, {.amax = amax});
    CHECK(q.state()[0] == expected.scale);
  }
}

TEST_CASE("train: a restored state continues with the same bits") {
  const auto model = make_model<float>(shape(), delayed_policy(), 1);
  const auto run = [](Model<float>& m, std::uint64_t seed) {
    const float loss = m.forward(batch(seed));
    m.backward(1);
    m.end_step();
    return loss;
  };
  for (std::uint64_t step = 0; step < 5; ++step) run(*model, step);
  const std::vector<LayerState> saved = model->states();
  CHECK(saved.size() == 6);  // two linear layers (the third is logits), three operands each
  const float expected = run(*model, 7);
  const auto other = make_model<float>(shape(), delayed_policy(), 1);
  CHECK(run(*other, 7) != expected);
  other->restore(saved);
  CHECK(run(*other, 7) == expected);
  CHECK(other->states().front().values == model->states().front().values);
}

TEST_CASE("train: a state that is none of the model is refused") {
  const auto model = make_model<float>(shape(), delayed_policy(), 1);
  std::vector<LayerState> states = model->states();
  CHECK_THROWS_AS(model->restore({}), Error);
  states.front().name = "other";
  CHECK_THROWS_AS(model->restore(states), Error);
  states = model->states();
  states.front().values = {1, 0, 9, 0};
  CHECK_THROWS_AS(model->restore(states), Error);
  states.front().values = std::vector<float>(400, 1);
  CHECK_THROWS_AS(model->restore(states), Error);
  CHECK_THROWS_AS(make_model<float>(shape(), {}, 1)->restore(model->states()), Error);
}

}  // namespace narrow::train
