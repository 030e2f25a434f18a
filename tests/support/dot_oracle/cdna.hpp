// AMD's steps: an exact sum (CDNA 1), IEEE operations without subnormals (CDNA 2), two alignments (CDNA 3).
#pragma once

#include "support/dot_oracle/fused.hpp"

namespace oracle {

inline Code round_nearest(const Integer& sum, int quantum, const Format& f) {
  return round_rational({sum, 1, quantum}, false, f);
}

// The exact sum of the products and c, rounded once.
inline Code exact_step(const DotModel& m, Codes a, Codes b, Code c) {
  Step step;
  for (std::size_t i = 0; i < a.size(); ++i) step.add_product(factor_of(a[i], m.a.format), factor_of(b[i], m.b.format));
  step.add_addend(factor_of(c, m.accumulator.format));
  if (step.is_special()) return step.special(m.accumulator.format);
  Rational sum;
  for (const Term& t : step.terms) sum = sum + Rational{t.m, 1, t.e - t.fraction};
  return round_rational(sum, false, m.accumulator.format);
}

// Subnormal inputs count as +0, subnormal results as zero with their sign; (p0 + p1) + (p2 + p3), then c.
inline Code flushed_pairs_step(const DotModel& m, Codes a, Codes b, Code c) {
  const Format& f = m.accumulator.format;
  const auto without_subnormal = [](Code code, const Format& g) {
    const Code magnitude = code & below_sign(g);
    return magnitude != 0 && magnitude >> g.mantissa_bits == 0 ? Code{0} : code;
  };
  const Cast flush{.subnormals = Subnormals::flush_results};
  std::vector<Code> sums;
  for (std::size_t i = 0; i < a.size(); ++i)
    sums.push_back(ieee_mul(without_subnormal(a[i], m.a.format), m.a.format, without_subnormal(b[i], m.b.format),
                            m.b.format, f, flush));
  while (sums.size() > 1) {
    std::vector<Code> next;
    for (std::size_t i = 0; i < sums.size(); i += 2) next.push_back(ieee_add(sums[i], sums[i + 1], f, flush));
    sums = next;
  }
  return ieee_add(without_subnormal(c, f), sums[0], f, flush);
}

// A sum of cut products: value * 2^quantum, aligned at `largest`.
struct Partial {
  Integer sum = 0;
  int quantum = 0, largest = 0;
  bool empty = true;  // no product that is not zero
};

inline Partial partial_sum(const std::vector<Term>& terms, const DotModel& m) {
  Partial p;
  if (terms.empty()) return p;
  p.empty = false;
  p.largest = terms[0].e;
  for (const Term& t : terms) p.largest = std::max(p.largest, t.e);
  p.quantum = p.largest - m.fraction_bits;
  p.sum = cut_and_add(terms, p.largest, m.fraction_bits);
  return p;
}

// The sum of the products and c, aligned to the larger exponent; c keeps 24 bits below it and the sum 31, floored. Zero
// counts with the exponent -126.
inline Code join_addend(const DotModel& m, const Partial& p, const Factor& c, bool drop_small_addend) {
  const int ec = c.is_zero() ? 1 - m.accumulator.format.bias : c.e;
  const int largest = p.empty ? ec : std::max(p.largest, ec);
  Integer addend = c.negative ? -Integer(c.m) : Integer(c.m);
  if (drop_small_addend && !p.empty && ec < p.largest - 25) addend = 0;
  const Integer floored_c = downward(addend, (ec - c.fraction) - (largest - 24));
  const Integer floored_sum = p.empty ? Integer(0) : downward(p.sum, p.quantum - (largest - 31));
  return round_nearest(shifted(floored_c, 7) + floored_sum, largest - 31, m.accumulator.format);
}

inline Code two_stage_step(const DotModel& m, Codes a, Codes b, Code c, bool halves) {
  Step sides[2];  // even and odd k where they are summed apart
  for (std::size_t i = 0; i < a.size(); ++i)
    sides[halves ? i % 2 : 0].add_product(factor_of(a[i], m.a.format), factor_of(b[i], m.b.format));
  Step all;
  const Factor addend = factor_of(c, m.accumulator.format);
  all.add_addend(addend);
  for (Step& side : sides) {
    all.nan = all.nan || side.nan;
    all.plus_inf = all.plus_inf || side.plus_inf;
    all.minus_inf = all.minus_inf || side.minus_inf;
    for (const Term& t : side.terms)  // a product that FP32 cannot hold counts as Inf
      if (!(abs(Rational{t.m, 1, t.e - t.fraction}) < power_of_two(128))) all.add_inf(t.m < 0);
  }
  if (all.is_special()) return all.special(m.accumulator.format);
  Partial p = partial_sum(sides[0].terms, m);
  const Partial odd = partial_sum(sides[1].terms, m);
  if (halves && !odd.empty) {
    if (p.empty) p.largest = odd.largest;
    const int largest = std::max(p.largest, odd.largest), quantum = largest - m.fraction_bits;
    p.sum = downward(p.sum, (p.empty ? 0 : p.quantum - quantum)) + downward(odd.sum, odd.quantum - quantum);
    p.largest = largest, p.quantum = quantum, p.empty = false;
  }
  return join_addend(m, p, addend, halves);
}

}  // namespace oracle
