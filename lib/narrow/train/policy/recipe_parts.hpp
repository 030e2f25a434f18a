// What recipes are put together from: torch's autocast lists, everything in one format, FP8 operands, one operation
// moved to a narrow format.
#pragma once

#include "narrow/train/policy/policy.hpp"

namespace narrow::train {

inline constexpr Operation products[] = {Operation::linear, Operation::convolution, Operation::scores,
                                         Operation::context, Operation::logits};

// Operands of a product.
void set_operands(OperationPolicy& policy, const Precision& weights, const Precision& activations,
                  const Precision& gradients);
// What an operation reads and writes.
void set_all_roles(OperationPolicy& policy, const Precision& precision);
// The same, and every operation inside is rounded too.
void compute_in(OperationPolicy& policy, const Precision& precision);

// torch.autocast: products in the narrow format; softmax, norms and the loss in FP32; what is on no list (the scale of
// the scores, GELU) in the format that it gets; the residual stream is FP32, because a sum takes the wider type. Batch
// norm is on no list either: narrow in and out, with weights, statistics and arithmetic in FP32, as cuDNN has it.
// Weights are FP32 and cast where they are used.
Policy autocast(const Format& format);

// model.half(), model.bfloat16(): all tensors, the parameters and the optimiser's state in one format. Kernels compute
// in FP32 inside and round what they store.
Policy pure(const Format& format);

// Transformer Engine: the linears inside the blocks have FP8 operands, all else is BF16 autocast. Convolutions, which
// it does not have, go with the linears.
Policy fp8_linears(const Precision& weights, const Precision& activations, const Precision& gradients);

// Products as Hopper's tensor cores sum them; operands are those of the policy (bf16, fp16, tf32 or FP8).
Policy on_hopper(Policy policy);

// Half of the ablations. What people leave in FP32, in a narrow format after all: `forward` for what flows on,
// `backward` for gradients; every operation inside is rounded when `inside` is set (not for FP8, which has no
// arithmetic).
struct Narrower {
  Precision forward, backward;
  bool inside;
};
Policy narrow_operation(Policy policy, Operation operation, const Narrower& to);

}  // namespace narrow::train
