// NVIDIA's steps: aligned, cut, added as integers, rounded once; also with scales of blocks.
#pragma once

#include <span>

#include "support/dot_oracle/ieee.hpp"
#include "support/dot_oracle/terms.hpp"

namespace oracle {

using narrow::DotModel;
using narrow::DotRule;
using Codes = std::span<const Code>;

// sum * 2^quantum in the accumulator's format. toward_zero: 2^(emax + 1) and above is Inf, what lies between the
// largest value and that is the largest value. A zero is +0, also one that a negative sum underflowed to.
inline Code round_result(const Integer& sum, int quantum, const DotModel& m) {
  const Format &result = m.result, &acc = m.accumulator.format;
  const Rational value{sum, 1, quantum};
  const int emax = static_cast<int>(largest_magnitude(result, false) >> result.mantissa_bits) - result.bias;
  Code code = 0;
  if (m.rounding == Rounding::toward_zero && !(abs(value) < power_of_two(emax + 1)))
    code = special_code(sum < 0, result);
  else code = round_rational(value, false, result, Cast{.rounding = m.rounding});
  if ((code & below_sign(result)) == 0) return 0;
  return code << (acc.mantissa_bits - result.mantissa_bits);  // fewer fraction bits: the others are zero
}

inline Code finish_fused(const Step& step, const DotModel& m) {
  if (step.is_special()) return step.special(m.accumulator.format);
  if (step.terms.empty()) return 0;
  int largest = m.exponent_floor;
  for (const Term& t : step.terms) largest = std::max(largest, t.e);
  return round_result(cut_and_add(step.terms, largest, m.fraction_bits), largest - m.fraction_bits, m);
}

// FP8 mma.sync on Hopper is FP16 inside: operands are converted first, which is exact, but E4M3's subnormals become
// normal numbers with exponents of their own.
inline bool is_fp16_inside(const DotModel& m) {
  return m.rule == DotRule::fused_pair_then_add;
}
inline Factor operand_of(Code code, const Format& f, bool through_fp16) {
  const Value v = value_of(code, f);
  if (!through_fp16 || v.kind != Kind::finite) return factor_of(code, f);
  const Format fp16 = narrow::ieee(5, 10);
  return factor_of(round_rational(v.exact(), v.negative, fp16), fp16);
}

inline Code fused_step(const DotModel& m, Codes a, Codes b, Code c) {
  Step step;
  for (std::size_t i = 0; i < a.size(); ++i)
    step.add_product(operand_of(a[i], m.a.format, is_fp16_inside(m)), operand_of(b[i], m.b.format, is_fp16_inside(m)));
  step.add_addend(factor_of(c, m.accumulator.format));
  return finish_fused(step, m);
}

// FP8 through two FP16 instructions (k mod 4 in {0, 1}, then {2, 3}), then an addition of c.
// The fp16 code of an FP8 code. e5m2 is the upper byte of an fp16; e4m3 has another bias, and its subnormals m * 2^-9
// are normal there: 2^-9 for m = 1, 2^-8 * (1 + (m - 2) / 2) up to 3, 2^-7 * (1 + (m - 4) / 4) from 4 on.
inline Code widened_to_half(Code code, const Format& f) {
  if (f.exponent_bits == 5) return code << 8;
  const Code sign = (code & 0x80) << 8, field = code >> 3 & 15, m = code & 7;
  if (field == 15 && m == 7) return sign | 0x7E00;
  if (field != 0) return sign | (field + 8) << 10 | m << 7;
  if (m == 0) return sign;
  if (m == 1) return sign | 6 << 10;
  return m < 4 ? sign | 7 << 10 | (m - 2) << 9 : sign | 8 << 10 | (m - 4) << 8;
}

inline Code fused_pair_instruction(const DotModel& m, Codes a, Codes b, Code c) {
  DotModel wide = m;
  wide.a.format = wide.b.format = narrow::Format{5, 10, 15, narrow::Specials::inf_and_nan};
  std::vector<Code> halves[4];
  for (std::size_t k = 0; k < a.size(); ++k) {
    halves[k % 4 / 2].push_back(widened_to_half(a[k], m.a.format));
    halves[2 + k % 4 / 2].push_back(widened_to_half(b[k], m.b.format));
  }
  const Code first = fused_step(wide, halves[0], halves[2], 0);
  return ieee_add(fused_step(wide, halves[1], halves[3], first), c, m.accumulator.format);
}

// A scale is never negative: ue4m3 ignores the sign bit.
inline Factor scale_factor(Code code, const Format& f) {
  Factor s = factor_of(code & below_sign(f), f);
  s.negative = false;
  return s;
}

struct Scales {
  Codes a, b;
  int block = 1;
  std::size_t first = 0;  // k of the step's first product

  Code at(Codes codes, std::size_t i) const { return codes[(first + i) / static_cast<std::size_t>(block)]; }
};

inline Code block_fused_step(const DotModel& m, Codes a, Codes b, const Scales& scales, Code c) {
  Step step;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Factor sa = scale_factor(scales.at(scales.a, i), m.scale), sb = scale_factor(scales.at(scales.b, i), m.scale);
    if (sa.kind == Kind::nan || sb.kind == Kind::nan) step.nan = true;
    step.add_product(factor_of(a[i], m.a.format), factor_of(b[i], m.b.format), sa.e + sb.e);
  }
  step.add_addend(factor_of(c, m.accumulator.format));
  return finish_fused(step, m);
}

// Groups of 16: the exact sum times the significands of both scales is one term; its exponent is that of the scales.
inline Code block_groups_step(const DotModel& m, Codes a, Codes b, const Scales& scales, Code c) {
  Step step;
  for (std::size_t g = 0; g < a.size(); g += 16) {
    const Factor sa = scale_factor(scales.at(scales.a, g), m.scale), sb = scale_factor(scales.at(scales.b, g), m.scale);
    if (sa.kind == Kind::nan || sb.kind == Kind::nan) step.nan = true;
    Rational sum;
    for (std::size_t i = g; i < std::min(g + 16, a.size()); ++i)
      sum = sum + value_of(a[i], m.a.format).exact() * value_of(b[i], m.b.format).exact();
    const Rational term = sum * Rational{Integer(sa.m) * sb.m, 1, -(sa.fraction + sb.fraction)};
    const int e = sa.e + sb.e;
    // Products that cancel leave a group without a sum but with its exponent.
    bool counts = false;
    for (std::size_t i = g; i < std::min(g + 16, a.size()); ++i)
      counts = counts || !(value_of(a[i], m.a.format).exact() * value_of(b[i], m.b.format).exact()).is_zero();
    if (counts && sa.m != 0 && sb.m != 0) step.terms.push_back({term.num, e, -term.exp2});
  }
  step.add_addend(factor_of(c, m.accumulator.format));
  return finish_fused(step, m);
}

}  // namespace oracle
