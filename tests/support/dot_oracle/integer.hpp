// Integer dot products: exact, then modulo 2^32 or clamped after each instruction.
#pragma once

#include "support/dot_oracle/fused.hpp"

namespace oracle {

inline std::int64_t small_integer(Code code, const Format& f) {
  const auto bits = static_cast<std::int64_t>(code & ones(width(f)));
  return f.has_sign && (code & sign_bit(f)) != 0 ? bits - (std::int64_t{1} << width(f)) : bits;
}

inline Code integer_instruction(const DotModel& m, Codes a, Codes b, Code c) {
  std::int64_t sum = small_integer(c, m.accumulator.format);
  for (std::size_t k = 0; k < a.size(); ++k) sum += small_integer(a[k], m.a.format) * small_integer(b[k], m.b.format);
  if (m.rule == DotRule::integer_saturating)
    sum = std::clamp<std::int64_t>(sum, -(std::int64_t{1} << 31), (std::int64_t{1} << 31) - 1);
  return static_cast<std::uint32_t>(sum);
}

}  // namespace oracle
