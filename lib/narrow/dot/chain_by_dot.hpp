// One chain of one output through dot(): slow, right for every model, and what the fast ways are held against.
#pragma once

#include "narrow/dot/dot.hpp"
#include "narrow/dot/epilogue.hpp"
#include "narrow/dot/operand.hpp"

namespace narrow::detail {

// a(i, k) and b(k, j): codes of the operands; k_at(position): which k stands there, -1 for a zero product.
template <class A, class B, class KAt>
Code chain_by_dot(const Product& p, const A& a, const B& b, std::size_t i, std::size_t j, const KAt& k_at,
                  std::size_t begin, std::size_t end, Code start) {
  const DotModel& m = p.model;
  std::vector<Code> x, y, scale_x, scale_y;
  for (std::size_t at = begin; at < end; ++at) {
    const std::int32_t k = k_at(at);
    x.push_back(k < 0 ? m.a.format.zero_code() : a(i, static_cast<std::size_t>(k)));
    y.push_back(k < 0 ? m.b.format.zero_code() : b(static_cast<std::size_t>(k), j));
    if (!m.is_block_scaled() || (at - begin) % static_cast<std::size_t>(m.scale_block) != 0) continue;
    const std::size_t blocks = (p.k + static_cast<std::size_t>(m.scale_block) - 1) / static_cast<std::size_t>(m.scale_block);
    const auto scale_at = [&](std::span<const std::uint8_t> scales, std::size_t line) -> Code {
      if (scales.empty() || k < 0) return static_cast<Code>(m.scale.bias) << m.scale.mantissa_bits;  // 1
      return scales[line * blocks + static_cast<std::size_t>(k / m.scale_block)];
    };
    scale_x.push_back(scale_at(p.options.block_a, i));
    scale_y.push_back(scale_at(p.options.block_b, j));
  }
  return m.is_block_scaled() ? dot_scaled(m, x, y, scale_x, scale_y, start) : dot(m, x, y, start);
}

}  // namespace narrow::detail
