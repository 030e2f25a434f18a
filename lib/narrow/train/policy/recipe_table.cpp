#include "narrow/train/policy/recipe.hpp"
#include "narrow/train/policy/recipe_parts.hpp"

namespace narrow::train {

namespace {

constexpr Format fp16 = "fp16"_fmt, bf16 = "bf16"_fmt, e4m3 = "e4m3"_fmt, e5m2 = "e5m2"_fmt;
constexpr Cast saturating{.overflow = Overflow::saturate};

Precision scaled(const Format& format, Scaling scaling) {
  return {.format = format, .cast = saturating, .scaling = scaling};
}

// FP32 tensors, products with operands that are rounded to nearest even, as cuBLAS does for TF32.
Policy narrow_operands(Policy policy, Operation o, const Format& format) {
  set_operands(policy[o], {.format = format}, {.format = format}, {.format = format});
  return policy;
}
Policy tf32() {
  Policy policy;
  for (const Operation o : products) policy = narrow_operands(std::move(policy), o, "tf32"_fmt);
  return policy;
}

// Forward E4M3, gradients E5M2.
Policy hybrid(Scaling scaling) {
  return fp8_linears(scaled(e4m3, scaling), scaled(e4m3, scaling), scaled(e5m2, scaling));
}
Policy block() {
  return fp8_linears(scaled(e4m3, Scaling::block_128x128), scaled(e4m3, Scaling::block_1x128),
                     scaled(e4m3, Scaling::block_1x128));
}
Policy same(const Format& format, Scaling scaling) {
  return fp8_linears(scaled(format, scaling), scaled(format, scaling), scaled(format, scaling));
}

// Transformer Engine's NVFP4BlockScaling: tiles of 16x16 for weights, so that both directions see the same numbers; the
// other operands in runs of 16; gradients rounded stochastically, and the product of the weights' gradient turned by a
// random Hadamard matrix.
Policy nvfp4() {
  const Format e2m1 = "e2m1"_fmt;
  Policy policy =
      fp8_linears(scaled(e2m1, Scaling::nvfp4_16x16), scaled(e2m1, Scaling::nvfp4), scaled(e2m1, Scaling::nvfp4));
  for (const Operation o : {Operation::linear, Operation::convolution}) {
    policy[o].gradients.cast.rounding = Rounding::stochastic;
    policy[o].wgrad.hadamard = true;
  }
  return policy;
}

// Four over six for weights and activations, as Transformer Engine has it: without the transform.
Policy nvfp4_4over6() {
  Policy policy = nvfp4();
  for (const Operation o : {Operation::linear, Operation::convolution}) {
    for (Precision* p : {&policy[o].weights, &policy[o].activations}) p->rule = ScaleRule::te_4over6;
    policy[o].wgrad.hadamard = false;
  }
  return policy;
}

Policy stochastic() {
  Policy policy = pure(bf16);
  policy.training.parameters.cast.rounding = Rounding::stochastic;
  return policy;
}
Policy kahan() {
  Policy policy = pure(bf16);
  policy.training.kahan = true;
  return policy;
}

Policy ablation(Policy policy, std::initializer_list<Operation> operations, const Narrower& to) {
  for (const Operation o : operations) policy = narrow_operation(std::move(policy), o, to);
  return policy;
}
Policy fp16_ablation(std::initializer_list<Operation> operations) {
  return ablation(autocast(fp16), operations, {{.format = fp16}, {.format = fp16}, true});
}
Policy fp8_ablation(std::initializer_list<Operation> operations) {
  return ablation(hybrid(Scaling::tensor_current), operations,
                  {{.format = e4m3, .cast = saturating}, {.format = e5m2, .cast = saturating}, false});
}
constexpr auto norms = {Operation::norm, Operation::batch_norm};

// Logits in FP8: the last product, and the loss that reads them.
Policy fp8_logits() {
  Policy policy = fp8_ablation({Operation::loss});
  set_operands(policy[Operation::logits], scaled(e4m3, Scaling::tensor_current), scaled(e4m3, Scaling::tensor_current),
               scaled(e5m2, Scaling::tensor_current));
  return policy;
}

constexpr RecipeRow rows[] = {
    {"fp32", "everything in FP32", [] { return Policy{}; }, "none"},
    {"tf32", "products take TF32 operands, all else is FP32", tf32, "none"},
    // torch's switches: aten/src/ATen/Context.cpp setAllowTF32CuBLAS, setFloat32MatmulPrecision (2.x), and what the
    // bits of products say (data/end-to-end/switches.tsv); cudnn.allow_tf32 is on as torch starts.
    {"allow_tf32", "torch.backends.cuda.matmul.allow_tf32: as tf32; off by default since 1.12 (cudnn.allow_tf32 is on)",
     tf32, "none"},
    {"matmul-highest", "torch.set_float32_matmul_precision highest, the default: FP32, but TF32 in convolutions",
     [] { return narrow_operands({}, Operation::convolution, "tf32"_fmt); }, "none"},
    {"matmul-high", "torch.set_float32_matmul_precision high: as tf32 on CUDA", tf32, "none"},
    {"matmul-medium", "the same with medium: BF16 is allowed, an H200 takes TF32 (data/end-to-end)", tf32, "none"},
    {"bf16-amp", "autocast to BF16, FP32 master weights", [] { return autocast(bf16); }, "none"},
    {"fp16-amp", "autocast to FP16, FP32 master weights, dynamic loss scale", [] { return autocast(fp16); }, "torch"},
    {"fp16-amp-noscale", "the same without a loss scale: small gradients vanish", [] { return autocast(fp16); },
     "none"},
    {"fp16-pure", "all in FP16: no master weights, no loss scale", [] { return pure(fp16); }, "none"},
    {"bf16-pure", "all in BF16: no master weights", [] { return pure(bf16); }, "none"},
    {"bf16-pure-stochastic", "all in BF16, parameters rounded stochastically", stochastic, "none"},
    {"bf16-pure-kahan", "all in BF16, with a BF16 compensation for every parameter", kahan, "none"},
    {"fp8-current", "FP8 linears (E4M3 forward, E5M2 gradients), scales of the tensor itself",
     [] { return hybrid(Scaling::tensor_current); }, "none"},
    {"fp8-delayed", "FP8 linears, scales from the amax history", [] { return hybrid(Scaling::tensor_delayed); },
     "none"},
    {"fp8-block", "E4M3 linears, scales of 1x128 runs and 128x128 tiles", block, "none"},
    {"mxfp8", "E4M3 linears, power-of-two scales of runs of 32", [] { return same(e4m3, Scaling::mx); }, "none"},
    {"nvfp4", "E2M1 linears, 16x16 weights, stochastic gradients, random Hadamard transform", nvfp4, "none"},
    {"nvfp4-4over6", "the same without the transform, weights and activations with the better of two scales",
     nvfp4_4over6, "none"},
    {"nvfp4-plain", "the same in runs of 16 alone: to nearest, without the transform",
     [] { return same("e2m1"_fmt, Scaling::nvfp4); }, "none"},
    {"fp8-noscale", "FP8 linears without scales: gradients vanish", [] { return hybrid(Scaling::none); }, "none"},
    {"int8", "INT8 linears, symmetric scales of the tensor", [] { return same("int8"_fmt, Scaling::tensor_current); },
     "none"},
    {"fp16-amp-softmax", "fp16-amp with softmax computed in FP16", [] { return fp16_ablation({Operation::softmax}); },
     "torch"},
    {"fp16-amp-norm", "fp16-amp with the norms computed in FP16", [] { return fp16_ablation(norms); }, "torch"},
    {"fp16-amp-residual", "fp16-amp with the residual stream in FP16",
     [] { return fp16_ablation({Operation::residual}); }, "torch"},
    {"fp16-amp-logits", "fp16-amp with the loss computed in FP16", [] { return fp16_ablation({Operation::loss}); },
     "torch"},
    {"fp8-current-softmax", "fp8-current with softmax in and out in FP8",
     [] { return fp8_ablation({Operation::softmax}); }, "none"},
    {"fp8-current-norm", "fp8-current with norms in and out in FP8", [] { return fp8_ablation(norms); }, "none"},
    {"fp8-current-residual", "fp8-current with the residual stream in FP8",
     [] { return fp8_ablation({Operation::residual}); }, "none"},
    {"fp8-current-logits", "fp8-current with the last product and the loss in FP8", fp8_logits, "none"},
    {"bf16-hopper", "bf16-amp with products as Hopper's tensor cores sum them",
     [] { return on_hopper(autocast(bf16)); }, "none"},
    {"fp16-hopper", "fp16-amp with products as Hopper's tensor cores sum them",
     [] { return on_hopper(autocast(fp16)); }, "torch"},
    {"tf32-hopper", "tf32 with products as Hopper's tensor cores sum them", [] { return on_hopper(tf32()); }, "none"},
    {"fp8-hopper", "fp8-current with products as Hopper's tensor cores sum them",
     [] { return on_hopper(hybrid(Scaling::tensor_current)); }, "none"},
};

}  // namespace

std::span<const RecipeRow> recipe_table() { return rows; }

}  // namespace narrow::train
