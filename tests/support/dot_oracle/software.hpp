// Sums in software, one IEEE operation after the other, and the exact sum rounded once.
#pragma once

#include "support/dot_oracle/fused.hpp"

namespace oracle {

inline Code fma_chain(const DotModel& m, Codes a, Codes b, Code c) {
  for (std::size_t k = 0; k < a.size(); ++k) c = ieee_fma(a[k], m.a.format, b[k], m.b.format, c, m.accumulator.format);
  return c;
}

inline Code multiply_add(const DotModel& m, Codes a, Codes b, Code c) {
  const Format& f = m.accumulator.format;
  for (std::size_t k = 0; k < a.size(); ++k) c = ieee_add(c, ieee_mul(a[k], m.a.format, b[k], m.b.format, f), f);
  return c;
}

// Neighbours added until one is left; an odd one out waits for the next round. c last.
inline Code pairwise(const DotModel& m, Codes a, Codes b, Code c) {
  const Format& f = m.accumulator.format;
  std::vector<Code> sums;
  for (std::size_t k = 0; k < a.size(); ++k) sums.push_back(ieee_mul(a[k], m.a.format, b[k], m.b.format, f));
  while (sums.size() > 1) {
    std::vector<Code> next;
    for (std::size_t i = 0; i + 1 < sums.size(); i += 2) next.push_back(ieee_add(sums[i], sums[i + 1], f));
    if (sums.size() % 2 == 1) next.push_back(sums.back());
    sums = next;
  }
  return sums.empty() ? c : ieee_add(sums[0], c, f);
}

// y = p - lost; t = sum + y; lost = (t - sum) - y
inline Code kahan(const DotModel& m, Codes a, Codes b, Code c) {
  const Format& f = m.accumulator.format;
  Code lost = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const Code y = ieee_sub(ieee_mul(a[k], m.a.format, b[k], m.b.format, f), lost, f);
    const Code t = ieee_add(c, y, f);
    lost = ieee_sub(ieee_sub(t, c, f), y, f);
    c = t;
  }
  return c;
}

// The exact sum of products and c, rounded once. A zero sum is -0 only where rounding a negative value gave it.
inline Code exact_dot(Codes a, const Format& fa, Codes b, const Format& fb, Code c, const Format& f,
                      const Cast& cast = {}) {
  Step step;
  for (std::size_t k = 0; k < a.size(); ++k) step.add_product(factor_of(a[k], fa), factor_of(b[k], fb));
  step.add_addend(factor_of(c, f));
  if (step.nan || (step.plus_inf && step.minus_inf)) return round_nan(false, 0, f, cast);
  if (step.is_special()) return round_inf(step.minus_inf, f, cast);
  Rational sum;
  for (const Term& t : step.terms) sum = sum + Rational{t.m, 1, t.e - t.fraction};
  return round_rational(sum, false, f, cast);
}

}  // namespace oracle
