// Every operation by itself: its gradients against central differences in double.
#include <doctest/doctest.h>

#include "narrow/train/models/block.hpp"
#include "narrow/train/operations/cross_entropy.hpp"
#include "narrow/train/operations/embedding.hpp"
#include "narrow/train/operations/pool.hpp"
#include "narrow/train/operations/relu.hpp"
#include "train/probe.hpp"

namespace narrow::train {

using trial::check_all;
using trial::Probe;
using trial::random_tensor;
using trial::shake;

namespace {

// An operation with forward(x, y) and backward(dy, dx).
template <class Op>
void check_plain(Store<double>& store, Op& op, std::vector<std::size_t> shape) {
  shake(store);
  Tensor<double> x = random_tensor(shape, 1), y, dx;
  const Probe probe(shape);
  const auto f = [&] { return op.forward(x, y), probe(y); };
  f();
  op.backward(probe.weights, dx);
  check_all(store, x, dx, f);
}

}  // namespace

TEST_CASE("train: gradients of LayerNorm and RMSNorm") {
  for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
    Store<double> store({}, 1);
    Norm<double> norm(store, "norm", 11, kind);
    check_plain(store, norm, {5, 11});
  }
}

TEST_CASE("train: gradients of GELU and ReLU and the soft cap") {
  Store<double> store({}, 1);
  Gelu<double> gelu(store, "gelu");
  check_plain(store, gelu, {5, 7});
  Relu<double> relu(store, "relu");
  check_plain(store, relu, {5, 7});
  SoftCap<double> cap(store, "cap", 0.8);
  check_plain(store, cap, {5, 7});
}

TEST_CASE("train: gradients of a linear layer") {
  for (const bool has_bias : {true, false}) {
    Store<double> store({}, 1);
    Linear<double> linear(store, "linear", 6, 9, {Start::normal(1), has_bias});
    shake(store);
    Tensor<double> x = random_tensor({4, 6}, 1), y, dx;
    const Probe probe({4, 9});
    const auto f = [&] { return linear.forward(x, y), probe(y); };
    f();
    linear.backward(probe.weights, &dx);
    check_all(store, x, dx, f);
  }
}

TEST_CASE("train: gradients of softmax with and without a mask") {
  for (const Mask mask : {Mask::none, Mask::causal}) {
    Store<double> store({}, 1);
    Softmax<double> softmax(store, "softmax", mask);
    Tensor<double> x = random_tensor({2, 9, 9}, 1), p, dp;
    const Probe probe({2, 9, 9});
    const auto f = [&] { return p = x, softmax.forward(p, 9), probe(p); };
    f();
    for (std::size_t i = 0; i < 18; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < 9; ++j) {
        sum += p.row(i)[j];
        if (mask == Mask::causal && j > i % 9) CHECK(p.row(i)[j] == 0);
      }
      CHECK(std::abs(sum - 1) < 1e-15 * 9);
    }
    dp = probe.weights;
    softmax.backward(p, dp, 9);
    check_all(store, x, dp, f);
  }
}

TEST_CASE("train: gradients of scores and scale and context") {
  const Heads heads{2, 5, 3, 4};
  Store<double> store({}, 1);
  Scores<double> scores(store, "scores", Mask::causal);
  ScaleScores<double> scale(store, "scale", 0.5);
  Context<double> context(store, "context");
  Tensor<double> q = random_tensor({10, 12}, 1), k = random_tensor({10, 12}, 2), v = random_tensor({10, 12}, 3);
  Tensor<double> s, o, ds, dq, dk, dv;
  const Probe probe({10, 12});
  const auto f = [&] {
    return scores.forward(heads, q, k, s), scale.forward(s), context.forward(heads, s, v, o), probe(o);
  };
  f();
  context.backward(probe.weights, ds, dv);
  scale.backward(ds);
  // The scores hide what the mask hides: so does their gradient (softmax sees to it in a model).
  for (std::size_t n = 0; n < heads.count(); ++n)
    for (std::size_t i = 0; i < 5; ++i)
      for (std::size_t j = i + 1; j < 5; ++j) ds.data[n * 25 + i * 5 + j] = 0;
  scores.backward(ds, dq, dk);
  check_all(store, q, dq, f);
  check_all(store, k, dk, f);
  check_all(store, v, dv, f);
}

TEST_CASE("train: gradients of the embeddings and the residual sum and the pool") {
  Store<double> store({}, 1);
  TokenEmbedding<double> tokens(store, "tokens", 6, 5, Start::normal(1));
  PositionEmbedding<double> positions(store, "positions", 4, 5, Start::normal(1));
  Residual<double> residual(store, "residual");
  Pool<double> pool(store, "pool");
  Tensor<double> other = random_tensor({8, 5}, 2), e, x, sum, y;
  const std::vector<std::int32_t> text = {0, 3, 3, 5, 1, 3, 0, 2};
  const Probe probe({2, 5});
  const auto f = [&] {
    tokens.forward(text, e), positions.forward(e, 4, x), residual.forward(x, other, sum), pool.forward(sum, 2, y);
    return probe(y);
  };
  f();
  Tensor<double> d, branch;
  pool.backward(probe.weights, d);
  residual.begin_backward(d);
  const Tensor<double> d_other = d;
  branch.resize(d.shape);
  residual.end_backward(d, branch);
  positions.backward(d);
  tokens.backward(d);
  check_all(store, other, d_other, f);
}

TEST_CASE("train: gradients of the cross entropy scale with the loss scale") {
  Store<double> store({}, 1);
  CrossEntropy<double> loss(store, "loss");
  Tensor<double> x = random_tensor({6, 10}, 1), dx;
  const std::vector<std::int32_t> targets = {3, 9, 0, 0, 7, 2};
  const auto f = [&] { return 1024 * loss.forward(x, targets); };
  f();
  loss.backward(1024, dx);
  check_all(store, x, dx, f);
}

TEST_CASE("train: gradients of a whole block of a transformer") {
  ModelShape shape;
  shape.width = 8, shape.heads = 2, shape.layers = 1;
  Store<double> store({}, 1);
  Block<double> block(store, "block", shape, Mask::causal);
  shake(store);
  Tensor<double> x = random_tensor({6, 8}, 1), y;
  const Probe probe({6, 8});
  const auto f = [&] { return block.forward(x, 2, y), probe(y); };
  f();
  Tensor<double> d = probe.weights;
  block.backward(d);
  check_all(store, x, d, f);
}

}  // namespace narrow::train
