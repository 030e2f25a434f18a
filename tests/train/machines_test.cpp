// The same bits on every machine: hashes of functions and of four steps of training, found equal on aarch64 (NEON) and
// x86-64 (SSE2 and AVX2) with g++ 12 and 13 and clang 14.
#include <doctest/doctest.h>

#include <bit>

#include "narrow/base/random.hpp"
#include "narrow/train/models/model.hpp"
#include "narrow/train/operations/math.hpp"

namespace narrow::train {

namespace {

struct Hash {
  std::uint64_t value = 0;
  void add(std::uint64_t word) {
    value = (value ^ word) * 0x100000001B3ull;
    value ^= value >> 29;
  }
  void add(float x) { add(std::uint64_t{std::bit_cast<std::uint32_t>(x)}); }
  void add(double x) { add(std::bit_cast<std::uint64_t>(x)); }
};

// Four steps of gradient descent on the default transformer at batch 8; the losses and every parameter after each.
std::uint64_t hash_of_steps(const Policy& policy) {
  ModelShape shape;
  shape.kind = ModelKind::transformer;
  const auto model = make_model<float>(shape, policy, 1);
  Batch batch;
  batch.size = 8;
  for (std::size_t i = 0; i < batch.size * shape.context; ++i) {
    batch.tokens.push_back(static_cast<std::int32_t>(random_bits(1, i) % shape.vocabulary));
    batch.targets.push_back(static_cast<std::int32_t>(random_bits(2, i) % shape.vocabulary));
  }
  Hash hash;
  for (std::uint64_t step = 0; step < 4; ++step) {
    model->set_step(3, step);
    hash.add(static_cast<double>(model->forward(batch)));
    model->backward(1);
    for (auto* p : model->parameters())
      for (std::size_t i = 0; i < p->value.size(); ++i) {
        p->value.data[i] -= 0.1f * p->gradient.data[i];
        hash.add(static_cast<double>(p->value.data[i]));
      }
  }
  return hash.value;
}

}  // namespace

TEST_CASE("train: exp and tanh and erf and log have the bits of the other machines") {
  Hash hash;
  for (std::uint64_t i = 0; i < 200000; ++i) {
    const float x = static_cast<float>(random_bits(5, i) >> 40) * 0x1p-17f - 64;
    hash.add(train::exp(x)), hash.add(train::tanh(x)), hash.add(train::erf(x / 16)), hash.add(train::log(x + 64));
    const double y = static_cast<double>(x) * 1.0000001;
    hash.add(train::exp(y)), hash.add(train::tanh(y / 8)), hash.add(train::erf(y / 16)), hash.add(train::log(y + 64));
  }
  CHECK(hash.value == 0x38e9a8904190e44aull);
}

TEST_CASE("train: four steps of the transformer have the bits of the other machines") {
  CHECK(hash_of_steps({}) == 0x19258599b717fac4ull);
  const Precision stochastic{"bf16"_fmt, {.rounding = Rounding::stochastic}};
  Policy policy;
  for (const Operation o : {Operation::linear, Operation::logits, Operation::scores, Operation::context})
    for (std::size_t r = 0; r < role_count; ++r) policy[o].role(static_cast<Role>(r)) = stochastic;
  CHECK(hash_of_steps(policy) == 0x4c8bfe6b95039372ull);
}

}  // namespace narrow::train
