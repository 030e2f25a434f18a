#include "narrow/train/run/memory.hpp"

#include <algorithm>

namespace narrow::train {

double bytes_of(const Precision& p) {
  if (p.format == "tf32"_fmt) return 4;
  if (p.scaling == Scaling::none || p.scaling == Scaling::tensor_delayed) return p.format.width() / 8.0;
  return block_format_of(p).bits_per_element() / 8;
}

ParameterBytes parameter_bytes(const Policy& policy, OptimiserKind optimiser) {
  const TrainingPolicy& t = policy.training;
  const Precision& used = policy[Operation::linear].weights;
  // The tensor core itself reads FP32 words as TF32.
  const bool copies = used.format != t.parameters.format && used.format != "tf32"_fmt;
  const double kept = bytes_of(t.parameters), states = optimiser == OptimiserKind::adamw ? 2 : 1;
  return {kept, copies ? bytes_of(used) : 0, bytes_of(t.gradient_accumulation), states * bytes_of(t.optimiser_state),
          t.kahan ? kept : 0};
}

ParameterBytes shard(const ParameterBytes& b, int stage, double group) {
  const auto from = [&](int first, double bytes) { return stage >= first ? bytes / group : bytes; };
  const bool is_master = b.copy > 0;
  return {from(is_master ? 1 : 3, b.kept), from(3, b.copy), from(2, b.gradient), from(1, b.moments),
          from(1, b.compensation)};
}

ActivationBytes activation_bytes(const Policy& p, const TransformerSizes& m, Recompute recompute) {
  const double residual = m.width * bytes_of(p[Operation::residual].output);
  if (recompute == Recompute::full) return {.residual = residual};
  const bool keeps_softmax = recompute == Recompute::none && !m.fused_attention;
  return {2 * residual, (3 * m.width + m.feed_forward) * bytes_of(p[Operation::linear].activations),
          3 * m.width * bytes_of(p[Operation::scores].activations),
          m.feed_forward * bytes_of(p[Operation::activation].activations),
          keeps_softmax ? m.heads * m.context * bytes_of(p[Operation::softmax].output) : 0};
}

double head_bytes(const Policy& p, const TransformerSizes& m) {
  return m.width * (bytes_of(p[Operation::residual].output) + bytes_of(p[Operation::logits].activations)) +
         2 * m.vocabulary * (bytes_of(p[Operation::logits].output) + bytes_of(p[Operation::loss].activations));
}

double peak_activation_bytes(const Policy& policy, const TransformerSizes& sizes, Recompute recompute) {
  const double kept = activation_bytes(policy, sizes, recompute).sum();
  const double again = activation_bytes(policy, sizes).sum() - kept;
  return sizes.layers * kept + std::max(head_bytes(policy, sizes), again);
}

}  // namespace narrow::train
