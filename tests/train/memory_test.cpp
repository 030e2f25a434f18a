// What a step keeps in memory, against published tables and counts by hand.
#include "narrow/train/run/memory.hpp"

#include <doctest/doctest.h>

#include "narrow/train/policy/recipe.hpp"

using namespace narrow;
using namespace narrow::train;

namespace {

Policy policy_of(const char* name) { return require_recipe(name).policy; }

}  // namespace

TEST_CASE("train: the ZeRO paper's table for 7.5 billion parameters on 64 devices") {
  // Its figure 1: 120, 31.4, 16.6 and 1.9 GB for stages 0 to 3, with gradients in 16 bits (2 + 2 + 12 bytes).
  Policy policy = policy_of("fp16-amp");
  CHECK(parameter_bytes(policy).gradient == 4);  // autocast keeps them in FP32
  policy.training.gradient_accumulation = {.format = "fp16"_fmt};
  CHECK(parameter_bytes(policy).sum() == 16);
  const double published[] = {120, 31.4, 16.6, 1.9};
  constexpr double printed_digit = 0.05;  // GB: half of the last digit of the table
  for (int stage = 0; stage < 4; ++stage) {
    CAPTURE(stage);
    const double gigabytes = 7.5 * shard(parameter_bytes(policy), stage, 64).sum();
    CHECK(gigabytes == doctest::Approx(published[stage]).epsilon(printed_digit / published[stage]));
  }
}

TEST_CASE("train: bytes of a parameter by hand") {
  struct Row {
    const char* recipe;
    double kept, copy, gradient, moments, compensation;
  };
  for (const Row& row : {Row{"fp32", 4, 0, 4, 8, 0}, Row{"tf32", 4, 0, 4, 8, 0}, Row{"bf16-amp", 4, 2, 4, 8, 0},
                         Row{"fp8-delayed", 4, 1, 4, 8, 0}, Row{"mxfp8", 4, 8.25 / 8, 4, 8, 0},
                         Row{"bf16-pure", 2, 0, 2, 4, 0}, Row{"bf16-pure-kahan", 2, 0, 2, 4, 2}}) {
    CAPTURE(row.recipe);
    const ParameterBytes b = parameter_bytes(policy_of(row.recipe));
    CHECK(b.kept == row.kept);
    CHECK(b.copy == row.copy);
    CHECK(b.gradient == row.gradient);
    CHECK(b.moments == row.moments);
    CHECK(b.compensation == row.compensation);
    CHECK(parameter_bytes(policy_of(row.recipe), OptimiserKind::sgd).moments == row.moments / 2);
  }
}

TEST_CASE("train: each stage shares what only it may share") {
  // Without a copy the products read the parameters themselves: they stay whole until stage 3.
  const ParameterBytes whole = parameter_bytes(policy_of("bf16-pure-kahan"));
  CHECK(shard(whole, 0, 4).sum() == 10);
  CHECK(shard(whole, 1, 4).sum() == 2 + 2 + 4 / 4.0 + 2 / 4.0);
  CHECK(shard(whole, 2, 4).sum() == 2 + 2 / 4.0 + 4 / 4.0 + 2 / 4.0);
  CHECK(shard(whole, 3, 4).sum() == 10 / 4.0);
  for (const RecipeRow& row : recipe_table())
    for (int stage = 0; stage < 4; ++stage) {
      CAPTURE(row.name);
      const ParameterBytes b = parameter_bytes(row.policy());
      CHECK(shard(b, stage, 1).sum() == b.sum());
      if (stage > 0) CHECK(shard(b, stage, 8).sum() < shard(b, stage - 1, 8).sum());
    }
}

TEST_CASE("train: activations of a layer are those that Korthikanti et al. count") {
  // GPT-3 of their table 3: s b h (34 + 5 a s / h) bytes with dropout; its masks and the second copy of the softmax are
  // 2 h + 3 a s, so that 32 h + 2 a s are left. Full recomputation keeps 2 h.
  TransformerSizes m{96, 12288, 4 * 12288.0, 96, 51200, 2048, false};
  const Policy policy = policy_of("fp16-pure");
  const double h = 12288, as = 96.0 * 2048;
  CHECK(activation_bytes(policy, m).sum() == 34 * h + 5 * as - (2 * h + 3 * as));
  CHECK(activation_bytes(policy, m, Recompute::selective).sum() == 32 * h);
  CHECK(activation_bytes(policy, m, Recompute::full).sum() == 2 * h);
  const double head = 2 * h + 2 * h + 2 * 51200.0 * (2 + 2);
  CHECK(head_bytes(policy, m) == head);
  CHECK(peak_activation_bytes(policy, m, Recompute::none) == 96 * (32 * h + 2 * as) + head);
  CHECK(peak_activation_bytes(policy, m, Recompute::full) == 96 * 2 * h + 30 * h + 2 * as);  // more than the head
  m.fused_attention = true;
  CHECK(activation_bytes(policy, m).sum() == 32 * h);
  CHECK(peak_activation_bytes(policy, m, Recompute::full) == 96 * 2 * h + head);  // less than the head
}

TEST_CASE("train: autocast keeps the residual stream and the loss wide") {
  // One layer, width 2, feed-forward 8, one head, context 4, vocabulary 3: 2 residuals of 4 bytes, (6 + 8) + 6 + 8
  // numbers of 2 bytes; the head 2 x 4 + 2 x 2, and 2 x 3 x (2 + 4).
  const TransformerSizes m{1, 2, 8, 1, 3, 4};
  const Policy policy = policy_of("bf16-amp");
  CHECK(activation_bytes(policy, m).sum() == 2 * 2 * 4 + (14 + 6 + 8) * 2);
  CHECK(head_bytes(policy, m) == 2 * 4 + 2 * 2 + 2 * 3 * (2 + 4));
  CHECK(m.parameters() == 4 * 4 + 2 * 2 * 8 + 2 * 3 * 2);
}
