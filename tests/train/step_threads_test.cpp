// A whole step gives the same bits for any number of threads, also with random bits; other steps have other bits.
#include <doctest/doctest.h>

#include <vector>

#include "narrow/base/random.hpp"
#include "narrow/train/models/model.hpp"

namespace narrow::train {

namespace {

// Large enough that every loop has several parts.
ModelShape attention_shape() {
  ModelShape s;
  s.kind = ModelKind::transformer;
  s.layers = 1, s.width = 64, s.heads = 4, s.context = 70, s.vocabulary = 40;
  return s;
}

std::vector<float> gradients(const ModelShape& s, const Batch& b, const Policy& policy, int threads,
                             std::uint64_t number) {
  const auto model = make_model<float>(s, policy, 1);
  model->set_threads(threads);
  model->set_step(9, number);
  std::vector<float> all{model->forward(b)};
  model->backward(1024);
  for (const auto* p : model->parameters()) all.insert(all.end(), p->gradient.data.begin(), p->gradient.data.end());
  for (const LayerState& state : model->states()) all.insert(all.end(), state.values.begin(), state.values.end());
  return all;
}

std::vector<float> cnn_step(const Policy& policy, int threads) {
  ModelShape s;
  s.kind = ModelKind::cnn, s.image = 13, s.hidden = {20, 24};
  Batch b;
  b.size = 6, b.targets = {0, 9, 5, 1, 2, 3};
  for (std::size_t i = 0; i < b.size * s.image * s.image; ++i)
    b.inputs.push_back(static_cast<float>(random_bits(1, i) % 99) / 99);
  return gradients(s, b, policy, threads, 5);
}

std::vector<float> step(const Policy& policy, int threads, std::uint64_t number) {
  const ModelShape s = attention_shape();
  Batch b;
  b.size = 3;
  for (std::size_t i = 0; i < b.size * s.context; ++i) {
    b.tokens.push_back(static_cast<std::int32_t>(random_bits(1, i) % s.vocabulary));
    b.targets.push_back(static_cast<std::int32_t>(random_bits(2, i) % s.vocabulary));
  }
  return gradients(s, b, policy, threads, number);
}

Policy with_roles(const Precision& forward, const Precision& backward) {
  Policy p;
  for (const Operation o : {Operation::linear, Operation::logits, Operation::scores, Operation::context,
                            Operation::convolution, Operation::batch_norm}) {
    p[o].weights = p[o].activations = p[o].output = forward;
    p[o].gradients = p[o].input_gradients = p[o].weight_gradients = backward;
  }
  return p;
}

}  // namespace

TEST_CASE("train: the bits of a step do not depend on the number of threads") {
  const Cast stochastic{.rounding = Rounding::stochastic};
  Policy fp8 = with_roles({"bf16"_fmt}, {"bf16"_fmt});
  fp8[Operation::linear].weights = {"e4m3"_fmt, {}, Scaling::block_128x128};
  fp8[Operation::linear].activations = fp8[Operation::linear].gradients = {"e4m3"_fmt, {}, Scaling::block_1x128};
  fp8[Operation::convolution] = fp8[Operation::linear];
  Policy model = with_roles({"bf16"_fmt}, {"bf16"_fmt});
  for (const Operation o : {Operation::linear, Operation::scores, Operation::convolution})
    model[o].forward = model[o].dgrad =
        model[o].wgrad = {Accumulation::model, {}, find_dot_model("hopper.wgmma.f32.bf16.bf16"), {}};
  for (const Policy& policy : {Policy{}, with_roles({"bf16"_fmt, stochastic}, {"bf16"_fmt, stochastic}), fp8, model}) {
    const std::vector<float> one = step(policy, 1, 5);
    for (const int threads : {2, 3, 8}) CHECK(step(policy, threads, 5) == one);
    const std::vector<float> convolved = cnn_step(policy, 1);
    for (const int threads : {2, 3, 8}) CHECK(cnn_step(policy, threads) == convolved);
  }
}

TEST_CASE("train: stochastic rounding takes other bits in another step and only there") {
  const Policy policy = with_roles({"bf16"_fmt, {.rounding = Rounding::stochastic}}, {"bf16"_fmt});
  CHECK(step(policy, 2, 5) == step(policy, 2, 5));
  CHECK(step(policy, 2, 5) != step(policy, 2, 6));
}

}  // namespace narrow::train
