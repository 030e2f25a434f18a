// What a policy may ask for, what sizes a model may have, and the one line that says what is wrong.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "narrow/train/models/model.hpp"
#include "support/contains.hpp"

namespace narrow::train {

namespace {

std::string policy_problem(const Policy& p) {
  return test::error_of([&] { check(p); });
}

bool says(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("train: the policy of plain FP32 is accepted and so is each narrow format in each role") {
  CHECK(policy_problem({}) == "");
  for (const char* name : {"bf16", "fp16", "tf32", "e4m3", "e5m2", "int8", "e3m2"}) {
    Policy p;
    for (OperationPolicy& o : p.operations)
      for (std::size_t r = 0; r < role_count; ++r) o.role(static_cast<Role>(r)).format = *find_format(name);
    CHECK(policy_problem(p) == "");
  }
}

TEST_CASE("train: a policy that cannot be computed names the role and what is possible") {
  Policy p;
  p[Operation::linear].weights.format = "e8m0"_fmt;
  CHECK(says(policy_problem(p), "linear.weights cannot be e8m0"));
  p = {};
  p[Operation::loss].activations.format = "fp64"_fmt;
  CHECK(says(policy_problem(p), "loss.activations cannot be fp64"));
  p = {};
  p[Operation::softmax].activations = {"e4m3"_fmt, {}, Scaling::tensor_current};
  CHECK(says(policy_problem(p), "softmax.activations cannot be scaled"));
  p = {};
  p[Operation::linear].output = {"e4m3"_fmt, {}, Scaling::mx};
  CHECK(says(policy_problem(p), "linear.output cannot be scaled"));
  p = {};
  p[Operation::linear].weights = {"bf16"_fmt, {}, Scaling::tensor_current};
  CHECK(says(policy_problem(p), "8 bits or fewer, not bf16"));
  p = {};
  p[Operation::scores].activations = {"e4m3"_fmt, {}, Scaling::mx};
  CHECK(says(policy_problem(p), "scores is a product of many small matrices"));
  p = {};
  p[Operation::linear].weights = {"e4m3"_fmt, {}, Scaling::mx, ScaleRule::te_current};
  CHECK(says(policy_problem(p), "for which te_current is no rule"));
  p = {};
  p[Operation::norm].arithmetic.format = "int8"_fmt;
  CHECK(says(policy_problem(p), "norm.arithmetic cannot be an integer"));
  p = {};
  p[Operation::norm].arithmetic = {"bf16"_fmt, {.rounding = Rounding::stochastic}};
  CHECK(says(policy_problem(p), "norm.arithmetic cannot be stochastic"));
  p = {};
  p[Operation::linear].forward.accumulation = Accumulation::model;
  CHECK(says(policy_problem(p), "linear.forward has no model"));
  p[Operation::linear].forward.model = find_dot_model("hopper.wgmma.f32.bf16.bf16");
  CHECK(
      says(policy_problem(p), "takes bf16 x bf16 by its model hopper.wgmma.f32.bf16.bf16, the roles give fp32 x fp32"));
  p = {};
  p[Operation::linear].activations = {"e4m3"_fmt, {}, Scaling::block_1x128};
  p[Operation::linear].weights = {"e4m3"_fmt, {}, Scaling::block_128x128};
  p[Operation::linear].forward = {Accumulation::model, {}, find_dot_model("hopper.wgmma.f32.e4m3.e4m3"), {}};
  CHECK(says(policy_problem(p), "promote:128"));
}

TEST_CASE("train: roles outside the model are checked like those inside") {
  constexpr std::pair<const char*, Precision TrainingPolicy::*> outside[] = {
      {"parameters", &TrainingPolicy::parameters}, {"optimiser_state", &TrainingPolicy::optimiser_state},
      {"update", &TrainingPolicy::update},         {"gradient_accumulation", &TrainingPolicy::gradient_accumulation},
      {"reduction", &TrainingPolicy::reduction},   {"clipping", &TrainingPolicy::clipping}};
  for (const auto& [name, member] : outside) {
    CAPTURE(name);
    const std::string role = "training." + std::string(name);
    Policy p;
    p.training.*member = {"e8m0"_fmt};
    CHECK(says(policy_problem(p), (role + " cannot be e8m0").c_str()));
    p.training.*member = {"e4m3"_fmt, {}, Scaling::mx};
    CHECK(says(policy_problem(p), (role + " cannot be scaled").c_str()));
    p.training.*member = {"fp32"_fmt, {.rounding = Rounding::stochastic}};
    CHECK(says(policy_problem(p), (role + " is fp32, which is not rounded").c_str()));
    p.training.*member = {"bf16"_fmt, {.rounding = Rounding::stochastic}};
    CHECK(policy_problem(p) == "");
  }
}

TEST_CASE("train: a cast that would be ignored is refused") {
  const auto problem = [](const Cast& cast, const Format& format, Scaling scaling) {
    Policy p;
    p[Operation::linear].weights = {format, cast, scaling};
    return policy_problem(p);
  };
  const Cast casts[] = {{.rounding = Rounding::stochastic},
                        {.overflow = Overflow::saturate_finite},
                        {.subnormals = Subnormals::flush_results},
                        {.random_bits = 8}};
  for (const Cast& cast : casts) {
    for (const Scaling s : {Scaling::tensor_current, Scaling::tensor_delayed, Scaling::block_1x128, Scaling::mx}) {
      if (is_block(s) && cast.rounding == Rounding::stochastic) CHECK(problem(cast, "e4m3"_fmt, s) == "");
      else
        CHECK(says(problem(cast, "e4m3"_fmt, s), "linear.weights is scaled: its elements are rounded to nearest even"));
    }
    CHECK(says(problem(cast, "fp32"_fmt, Scaling::none), "linear.weights is fp32, which is not rounded"));
    CHECK(problem(cast, "e4m3"_fmt, Scaling::none) == "");
  }
  CHECK(problem({.overflow = Overflow::saturate}, "e4m3"_fmt, Scaling::mx) == "");
  CHECK(says(problem({.overflow = Overflow::saturate}, "fp32"_fmt, Scaling::none), "is fp32"));
  CHECK(says(problem({}, "e4m3"_fmt, Scaling::nvfp4), "whose elements are e2m1, not e4m3"));
}

TEST_CASE("train: a hadamard transform is for the weights' gradient, of operands in blocks") {
  Policy p;
  OperationPolicy& o = p[Operation::linear];
  o.wgrad.hadamard = true;
  CHECK(says(policy_problem(p),
             "linear.wgrad has a hadamard transform, which is for gradients and activations in blocks"));
  o.activations = o.gradients = {"e2m1"_fmt, {}, Scaling::nvfp4};
  CHECK(policy_problem(p) == "");
  o.dgrad.hadamard = true;
  CHECK(says(policy_problem(p), "which is for wgrad alone"));
}

TEST_CASE("train: sizes that are zero or do not divide are refused") {
  const auto shape_problem = [](const auto& change) {
    ModelShape s;
    s.kind = ModelKind::transformer;
    change(s);
    return test::error_of([&] { make_model<float>(s, {}, 1); });
  };
  CHECK(says(shape_problem([](ModelShape& s) { s.heads = 3; }), "width 128 does not divide into 3 heads"));
  CHECK(says(shape_problem([](ModelShape& s) { s.layers = 0; }), "layers 0 is not within"));
  CHECK(says(shape_problem([](ModelShape& s) { s.width = std::size_t{1} << 40; }), "width"));
  CHECK(says(shape_problem([](ModelShape& s) { s.soft_cap = -1; }), "the soft cap must be 0"));
  CHECK(says(shape_problem([](ModelShape& s) { s.soft_cap = HUGE_VAL; }), "the soft cap must be 0"));
  CHECK(says(shape_problem([](ModelShape& s) { s.kind = ModelKind::vision, s.patch = 5; }), "patches of 5"));
  CHECK(says(shape_problem([](ModelShape& s) { s.kind = ModelKind::mlp, s.hidden = {4, 0}; }), "hidden layer 0"));
  CHECK(says(shape_problem([](ModelShape& s) { s.kind = ModelKind::cnn, s.hidden = {}; }), "number of convolutions 0"));
  CHECK(says(shape_problem([](ModelShape& s) { s.kind = ModelKind::cnn, s.hidden = {0}; }), "channels 0"));
}

TEST_CASE("train: a batch that does not fit is refused") {
  ModelShape s;
  s.kind = ModelKind::transformer, s.width = 8, s.heads = 2, s.layers = 1, s.context = 4, s.vocabulary = 5;
  const auto model = make_model<float>(s, {}, 1);
  const auto batch_problem = [&](const Batch& b) { return test::error_of([&] { model->forward(b); }); };
  CHECK(says(batch_problem({}), "0 tokens are not 0 sequences"));
  CHECK(says(batch_problem({1, {0, 1, 2, 3, 4}, {}, {0, 1, 2, 3, 4}}), "sequences of 1 to 4"));
  CHECK(says(batch_problem({1, {0, 5}, {}, {0, 0}}), "token 5 is none of a vocabulary of 5"));
  CHECK(says(batch_problem({1, {0, 1}, {}, {0, -1}}), "target -1 is none of 5 classes"));
  CHECK(says(batch_problem({1, {0, 1}, {}, {0}}), "1 targets for 2 rows"));
  CHECK(batch_problem({2, {0, 1}, {}, {0, 1}}) == "");
}

}  // namespace narrow::train
