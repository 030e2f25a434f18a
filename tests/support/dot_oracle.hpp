// The oracle of dot products: what a row of the table means, from the description of the machines, in exact integers.
// It knows the data members of DotModel and shares no code with dot/. Slow and obvious is its purpose.
#pragma once

#include "support/dot_oracle/cdna.hpp"
#include "support/dot_oracle/integer.hpp"
#include "support/dot_oracle/software.hpp"

namespace oracle {

// Products that are missing at the end are zero times zero; without any product there is one step of these.
inline std::vector<Code> padded(Codes codes, std::size_t begin, std::size_t size) {
  std::vector<Code> part(size, 0);
  for (std::size_t i = 0; i < size && begin + i < codes.size(); ++i) part[i] = codes[begin + i];
  return part;
}

// How many products meet before the accumulator is a code again.
inline std::size_t products_at_once(const DotModel& m) {
  const bool whole = m.rule == DotRule::fused_pair_then_add || m.is_integer();
  return static_cast<std::size_t>(whole ? m.instruction_k : m.products_per_step);
}

inline Code one_step(const DotModel& m, Codes a, Codes b, const Scales& scales, Code c) {
  switch (m.rule) {
    case DotRule::fused: return fused_step(m, a, b, c);
    case DotRule::fused_pair_then_add: return fused_pair_instruction(m, a, b, c);
    case DotRule::block_fused: return block_fused_step(m, a, b, scales, c);
    case DotRule::block_groups: return block_groups_step(m, a, b, scales, c);
    case DotRule::integer:
    case DotRule::integer_saturating: return integer_instruction(m, a, b, c);
    case DotRule::exact: return exact_step(m, a, b, c);
    case DotRule::flushed_pairs: return flushed_pairs_step(m, a, b, c);
    case DotRule::two_stage: return two_stage_step(m, a, b, c, false);
    case DotRule::two_stage_halves: return two_stage_step(m, a, b, c, true);
    default: break;
  }
  return 0;
}

// scale_a, scale_b: codes of the model's scale format, one for each block of products; only for block-scaled rows.
inline Code dot(const DotModel& m, Codes a, Codes b, Code c, Codes scale_a = {}, Codes scale_b = {}) {
  switch (m.rule) {
    case DotRule::fma_chain: return fma_chain(m, a, b, c);
    case DotRule::multiply_add: return multiply_add(m, a, b, c);
    case DotRule::pairwise: return pairwise(m, a, b, c);
    case DotRule::kahan: return kahan(m, a, b, c);
    default: break;
  }
  const std::size_t step = products_at_once(m);
  // Scales that are not given, and those of the padding, are 1.
  const auto block = static_cast<std::size_t>(std::max(m.scale_block, 1));
  const Code scale_one = static_cast<Code>(m.scale.bias) << m.scale.mantissa_bits;
  const std::size_t blocks = (a.size() + step) / block + 1;
  std::vector<Code> sa(blocks, scale_one), sb(blocks, scale_one);
  std::copy(scale_a.begin(), scale_a.end(), sa.begin());
  std::copy(scale_b.begin(), scale_b.end(), sb.begin());
  for (std::size_t k = 0; k < std::max<std::size_t>(a.size(), 1); k += step)
    c = one_step(m, padded(a, k, step), padded(b, k, step), Scales{sa, sb, static_cast<int>(block), k}, c);
  return c;
}

}  // namespace oracle
