#include "narrow/train/policy/policy.hpp"

#include "narrow/base/error.hpp"
#include "narrow/dot/gemm_checks.hpp"

namespace narrow::train {

namespace {

constexpr Format single = "fp32"_fmt;

std::string format_name(const Format& f) {
  for (const NamedFormat& row : format_table)
    if (row.format == f) return std::string(row.name);
  return "e" + std::to_string(f.exponent_bits) + "m" + std::to_string(f.mantissa_bits);
}

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw Error("policy: " + where + " " + why);
}

// A cast that the rounding would not follow is refused, not ignored.
void check_cast(const std::string& where, const Precision& p) {
  Cast cast = p.cast;
  if (p.scaling != Scaling::none) {
    if (cast.overflow == Overflow::saturate) cast.overflow = Overflow::to_special;
    if (is_block(p.scaling) && cast.rounding == Rounding::stochastic) cast.rounding = Rounding::nearest_even;
    if (cast != Cast{})
      refuse(where,
             "is scaled: its elements are rounded to nearest even (in blocks also stochastic) and saturate; leave out "
             "rounding, overflow, subnormals and random_bits, or the scaling");
  } else if (p.format == single && cast != Cast{}) {
    refuse(where, "is fp32, which is not rounded; leave out rounding, overflow, subnormals and random_bits");
  }
}

void check_precision(const std::string& where, const Precision& p, bool may_scale) {
  const Format& f = p.format;
  const bool fits = f.mantissa_bits <= 23 && f.exponent_bits <= 8;
  if (!f.is_valid() || !f.has_sign || !f.has_zero || !fits)
    refuse(where, "cannot be " + format_name(f) + ": a format with a sign and a zero that fits FP32 is needed");
  check_cast(where, p);
  if (p.scaling == Scaling::none) {
    if (p.rule) refuse(where, "has a rule for its scale but is not scaled");
    return;
  }
  if (!may_scale) refuse(where, "cannot be scaled; scaling is for operands of matrix products");
  if (f.width() > 8) refuse(where, "is scaled: its format must have 8 bits or fewer, not " + format_name(f));
  if (p.rule && p.scaling == Scaling::tensor_delayed) refuse(where, "follows te-delayed and takes no rule");
  const bool is_nvfp4 = p.scaling == Scaling::nvfp4 || p.scaling == Scaling::nvfp4_16x16;
  if (is_nvfp4 && f != "e2m1"_fmt) refuse(where, "is scaled as NVFP4, whose elements are e2m1, not " + format_name(f));
  const ScaleKind kind = is_nvfp4 ? ScaleKind::e4m3 : p.scaling == Scaling::mx ? ScaleKind::e8m0 : ScaleKind::fp32;
  if (p.rule && row_of(*p.rule).scale != kind)
    refuse(where, "is scaled " + std::string(name_of(p.scaling)) + ", for which " + std::string(row_of(*p.rule).name) +
                      " is no rule");
  if (p.rule == ScaleRule::te_nvfp4_row && p.scaling != Scaling::nvfp4)
    refuse(where, "is scaled nvfp4_16x16, and te_nvfp4_row has a factor for every row");
}

// What gemm is told of an operand's scales; only where they change along K matters here.
OperandScales scales_of(const Precision& p) {
  return p.scaling == Scaling::block_1x128 || p.scaling == Scaling::block_128x128 ? OperandScales{{}, 1, 128}
                                                                                  : OperandScales{};
}

void check_model(const std::string& where, const ProductPolicy& product, const Precision& a, const Precision& b) {
  const DotModel& m = *product.model;
  if (m.a.format != a.format || m.b.format != b.format)
    refuse(where, "takes " + std::string(m.a.name) + " x " + std::string(m.b.name) + " by its model " +
                      std::string(m.name.view()) + ", the roles give " + format_name(a.format) + " x " +
                      format_name(b.format));
  if (a.scaling >= Scaling::nvfp4 || b.scaling >= Scaling::nvfp4)
    refuse(where, "has NVFP4 blocks, whose products are native here");
  const bool mx = a.scaling == Scaling::mx || b.scaling == Scaling::mx;
  if (mx && (!m.is_block_scaled() || m.scale_block != 32 || a.scaling != b.scaling))
    refuse(where, "has MX blocks, which need a block-scaled model (blackwell.tcgen05...) and both operands in blocks");
  GemmOptions options;
  options.scale_a = scales_of(a), options.scale_b = scales_of(b);
  if (const std::string problem = narrow::detail::plan_problem(m, product.plan, options); !problem.empty())
    refuse(where, "with plan " + plan_text(product.plan) + " " + problem);
}

void check_product(const std::string& where, const ProductPolicy& product, const Precision& a, const Precision& b) {
  switch (product.accumulation) {
    case Accumulation::native: return;
    case Accumulation::every_operation: {
      const Format& f = product.accumulator;
      if (!f.is_valid() || f.is_integer() || !f.has_sign || !f.has_zero || f.mantissa_bits > 23 || f.exponent_bits > 8)
        refuse(where, "cannot round every operation to " + format_name(f));
      if (is_block(a.scaling) || is_block(b.scaling))
        refuse(where, "rounds every operation: its operands cannot be scaled in blocks");
      return;
    }
    case Accumulation::model: break;
  }
  if (product.model == nullptr) refuse(where, "has no model; narrow models lists them");
  check_model(where, product, a, b);
}

}  // namespace

const Precision& OperationPolicy::role(Role r) const noexcept {
  const Precision* roles[] = {&weights, &activations, &gradients, &output, &input_gradients, &weight_gradients};
  return *roles[static_cast<std::size_t>(r)];
}
Precision& OperationPolicy::role(Role r) noexcept {
  return const_cast<Precision&>(static_cast<const OperationPolicy&>(*this).role(r));
}

BlockFormat block_format_of(const Precision& p) {
  switch (p.scaling) {
    case Scaling::block_1x128: return {p.format, single, 1, 128, p.rule.value_or(ScaleRule::te_block)};
    case Scaling::block_128x128: return {p.format, single, 128, 128, p.rule.value_or(ScaleRule::te_block)};
    case Scaling::mx: return {p.format, "e8m0"_fmt, 1, 32, p.rule.value_or(ScaleRule::ocp_floor)};
    case Scaling::nvfp4: return {p.format, "e4m3"_fmt, 1, 16, p.rule.value_or(ScaleRule::te_nvfp4)};
    case Scaling::nvfp4_16x16: return {p.format, "e4m3"_fmt, 16, 16, p.rule.value_or(ScaleRule::te_nvfp4)};
    default: return {p.format, single, 0, 0, p.rule.value_or(ScaleRule::te_current)};
  }
}

void check(const Policy& policy) {
  for (std::size_t i = 0; i < operation_count; ++i) {
    const auto operation = static_cast<Operation>(i);
    const OperationPolicy& p = policy.operations[i];
    const std::string name(name_of(operation));
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      const bool is_operand = r <= static_cast<std::size_t>(Role::gradients);
      check_precision(name + "." + std::string(name_of(role)), p.role(role), is_operand && is_product(operation));
    }
    check_precision(name + ".arithmetic", p.arithmetic, false);
    if (p.arithmetic.format.is_integer()) refuse(name + ".arithmetic", "cannot be an integer format");
    if (p.arithmetic.cast.rounding == Rounding::stochastic)
      refuse(name + ".arithmetic", "cannot be stochastic: random bits belong to tensors; round an output instead");
    if (!is_product(operation)) continue;
    const bool is_attention = operation == Operation::scores || operation == Operation::context;
    if (is_attention && (is_block(p.activations.scaling) || is_block(p.gradients.scaling)))
      refuse(name, "is a product of many small matrices: scale them per tensor, not in blocks");
    // Both operands of attention's products are activations.
    const Precision& other = is_attention ? p.activations : p.weights;
    check_product(name + ".forward", p.forward, p.activations, other);
    check_product(name + ".dgrad", p.dgrad, p.gradients, other);
    check_product(name + ".wgrad", p.wgrad, p.gradients, p.activations);
    if (p.forward.hadamard || p.dgrad.hadamard) refuse(name, "has a hadamard transform, which is for wgrad alone");
    if (p.wgrad.hadamard && !(is_block(p.gradients.scaling) && is_block(p.activations.scaling)))
      refuse(name + ".wgrad", "has a hadamard transform, which is for gradients and activations in blocks");
  }
  for (const auto& [name, role] : training_roles)
    check_precision("training." + std::string(name), policy.training.*role, false);
  narrow::check(policy.delayed);
}

}  // namespace narrow::train
