// From a model to the kernel that computes it.
#include "narrow/cuda/fused_gemm.cuh"
#include "narrow/cuda/fused_gemm.hpp"

namespace narrow::detail {

namespace {

bool is_half(const DotModel& m) { return m.accumulator.format == ieee(5, 10); }

// Sixteen terms at F = 25 fit 32 bits; more of them, or wider ones, need the wide sum.
bool is_wide(const DotModel& m) { return m.fraction_bits > 20 && m.products_per_step > 16; }

OperandRule operand_rule(const DotType& type, int extra_lift, bool widened) {
  const Format& f = type.format;
  return {f.mantissa_bits,
          f.bias,
          static_cast<int>(low_mask(f.exponent_bits)),
          type.name == "tf32" ? 13 : 0,
          10 - f.mantissa_bits + extra_lift,
          f.has_infinity(),
          f.has_nan(),
          false,
          widened};
}

}  // namespace

bool has_fused_kernel(const DotModel& m) {
  const bool known_rule =
      m.rule == DotRule::fused || m.rule == DotRule::fused_pair_then_add;
  const int l = m.products_per_step;
  const bool is_float = m.accumulator.format == ieee(8, 23);
  const bool rounds =
      is_half(m) ? m.rounding == Rounding::nearest_even : is_float && m.rounding == Rounding::toward_zero;
  return known_rule && rounds && (l == 4 || l == 8 || l == 16 || l == 32) && m.fraction_bits <= 25 &&
         m.a.format.mantissa_bits <= 10 && m.b.format.mantissa_bits <= 10;
}

void set_model(FusedGemm& g, const DotModel& m) {
  const bool widened = m.rule != DotRule::fused;  // mma.sync with FP8: fp16 instructions on widened operands
  g.rule_a = operand_rule(m.a, m.fraction_bits > 20 ? m.fraction_bits - 20 : 0, widened);
  g.rule_b = operand_rule(m.b, 0, widened);
  g.fraction_bits = m.fraction_bits;
  g.floor = m.exponent_floor;
  g.keep_mask = is_half(m) ? ~0u : ~0u << (23 - m.result.mantissa_bits);
  g.pair_block = m.rule == DotRule::fused_pair_then_add ? m.instruction_k : 0;
  g.part = m.rule == DotRule::fused ? 0 : m.instruction_k;
}

void launch_fused(const FusedGemm& g, const DotModel& m, int tiles, Tally* tally, cudaStream_t stream) {
  if (is_half(m)) launch_fused_half(g, m.products_per_step, is_wide(m), tiles, tally, stream);
  else launch_fused_float(g, m.products_per_step, is_wide(m), tiles, tally, stream);
}

}  // namespace narrow::detail
