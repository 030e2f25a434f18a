#include "narrow/train/policy/recipe_parts.hpp"

#include "narrow/base/error.hpp"

namespace narrow::train {

namespace {

// As hopper.wgmma names its operands.
std::string operand_word(const Format& f) {
  constexpr std::pair<std::string_view, Format> words[] = {
      {"f16", "fp16"_fmt}, {"bf16", "bf16"_fmt}, {"tf32", "tf32"_fmt}, {"e4m3", "e4m3"_fmt}, {"e5m2", "e5m2"_fmt}};
  for (const auto& [word, format] : words)
    if (format == f) return std::string(word);
  throw Error("Hopper's tensor cores have no operands of this format");
}

ProductPolicy hopper_product(const Precision& a, const Precision& b, std::string_view plan) {
  const std::string name = "hopper.wgmma.f32." + operand_word(a.format) + "." + operand_word(b.format);
  return {.accumulation = Accumulation::model, .model = find_dot_model(name), .plan = parse_plan(plan)};
}

}  // namespace

void set_operands(OperationPolicy& policy, const Precision& weights, const Precision& activations,
                  const Precision& gradients) {
  policy.weights = weights;
  policy.activations = activations;
  policy.gradients = gradients;
}

void set_all_roles(OperationPolicy& policy, const Precision& precision) {
  for (std::size_t r = 0; r < role_count; ++r) policy.role(static_cast<Role>(r)) = precision;
}

void compute_in(OperationPolicy& policy, const Precision& precision) {
  set_all_roles(policy, precision);
  policy.arithmetic = precision;
}

Policy autocast(const Format& format) {
  Policy policy;
  for (const Operation o : products) set_all_roles(policy[o], {.format = format});
  for (const Operation o : {Operation::scale, Operation::soft_cap, Operation::activation})
    set_all_roles(policy[o], {.format = format});
  OperationPolicy& norm = policy[Operation::batch_norm];
  norm.activations = norm.gradients = norm.output = norm.input_gradients = {.format = format};
  return policy;
}

Policy pure(const Format& format) {
  Policy policy;
  const Precision narrow{.format = format};
  for (OperationPolicy& operation : policy.operations) set_all_roles(operation, narrow);
  for (const auto& [name, role] : training_roles) policy.training.*role = narrow;
  return policy;
}

Policy fp8_linears(const Precision& weights, const Precision& activations, const Precision& gradients) {
  Policy policy = autocast("bf16"_fmt);
  for (const Operation o : {Operation::linear, Operation::convolution})
    set_operands(policy[o], weights, activations, gradients);
  return policy;
}

// FP8: Transformer Engine sums the forward product in the tensor core, and the backward ones in FP32 every 128 products
// (its split accumulator), because E5M2 gradients lose more in the 14 bits of the tensor core.
Policy on_hopper(Policy policy) {
  for (const Operation o : products) {
    OperationPolicy& p = policy[o];
    const bool is_fp8 = p.gradients.format.width() == 8;
    p.forward = hopper_product(p.activations, p.weights, "chain");
    p.dgrad = hopper_product(p.gradients, p.weights, is_fp8 ? "promote:128" : "chain");
    p.wgrad = hopper_product(p.gradients, p.activations, is_fp8 ? "promote:128" : "chain");
  }
  return policy;
}

Policy narrow_operation(Policy policy, Operation operation, const Narrower& to) {
  OperationPolicy& p = policy[operation];
  set_operands(p, to.forward, to.forward, to.backward);
  p.output = to.forward;
  p.input_gradients = p.weight_gradients = to.backward;
  if (to.inside) p.arithmetic = to.forward;
  return policy;
}

}  // namespace narrow::train
