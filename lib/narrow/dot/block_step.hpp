// One step of a block-scaled instruction (MX, NVFP4): products that carry the scales of their blocks.
#pragma once

#include "narrow/dot/step.hpp"

namespace narrow {

namespace detail {

// A scale has no sign (a ue4m3 scale ignores that bit); e8m0 has one significand, so only its exponent counts.
constexpr Unpacked scale_of(Code code, const Format& f) noexcept {
  Unpacked u = unpack(code & ~f.sign_mask(), f);
  u.negative = false;
  return u;
}
constexpr Code scale_one(const Format& f) noexcept { return static_cast<Code>(f.bias) << f.mantissa_bits; }

// The exponent of a term that does not count for the largest.
inline constexpr int no_exponent = -(1 << 20);

// Terms in order, c last, aligned and added as in fused_step. A term that is zero may still have an exponent.
template <class Watch>
constexpr Code add_terms(const DotModel& m, std::span<const DotTerm> terms, Watch&& watch) noexcept {
  int largest = m.exponent_floor;
  for (const DotTerm& t : terms)
    if (t.exponent > largest) largest = t.exponent;
  watch.largest(largest);
  const int lowest = largest - m.fraction_bits;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (terms[i].exponent == no_exponent) continue;
    const std::uint64_t kept = cut_term(terms[i], lowest);
    watch.term(i, terms[i], kept);
    sum += terms[i].negative ? -static_cast<std::int64_t>(kept) : static_cast<std::int64_t>(kept);
  }
  const Code result = round_sum(m, sum, lowest);
  watch.sum(sum, result);
  return result;
}

}  // namespace detail

// block_fused: every product's exponent counts its two scales (e8m0), c is not scaled.
// block_groups: 16 products are summed exactly and multiplied exactly by the significands of their scales; the group
// counts with the exponents of the scales alone, however large the sum is (up to 576), and also where its products cancel
// to nothing; a group counts for nothing only when all its products or a scale are zero. Groups and c are then fused.
// Scales: one code for each scale_block products of the step. At most 64 products.
template <class Watch = NoWatch>
constexpr Code block_step(const DotModel& m, std::span<const Code> a, std::span<const Code> b,
                          std::span<const Code> scale_a, std::span<const Code> scale_b, Code c,
                          Watch&& watch = Watch{}) noexcept {
  const Format &fa = m.a.format, &fb = m.b.format, &fc = m.accumulator.format, &fs = m.scale;
  const Unpacked addend = unpack(c, fc);
  detail::DotSpecials specials;
  specials.addend(addend);
  std::array<DotTerm, 65> terms{};
  std::size_t count = 0;
  const std::size_t group = m.rule == DotRule::block_groups ? 16 : 1;
  for (std::size_t i = 0; i < a.size(); i += group) {
    const std::size_t block = i / static_cast<std::size_t>(m.scale_block);
    const Unpacked sa = detail::scale_of(scale_a[block], fs), sb = detail::scale_of(scale_b[block], fs);
    if (sa.is_nan() || sb.is_nan()) specials.nan = true;
    DotTerm sum;  // of the products of a group, exact: all have the same unit place in e2m1's few binades
    std::int64_t total = 0;
    bool any = false;
    for (std::size_t k = i; k < a.size() && k < i + group; ++k) {
      const Unpacked x = unpack(a[k], fa), y = unpack(b[k], fb);
      specials.product(x, y);
      const DotTerm p = detail::product_of(x, fa, y, fb);
      any = any || p.significand != 0;
      if (group == 1) {
        sum = p;
        total = p.negative ? -static_cast<std::int64_t>(p.significand) : static_cast<std::int64_t>(p.significand);
      } else {
        const auto quanta = static_cast<std::int64_t>(p.significand << p.exponent);  // e2m1: exponents 0 .. 4
        total += p.negative ? -quanta : quanta;
        sum.fraction = p.fraction;
      }
    }
    sum.negative = total < 0;
    sum.significand = static_cast<std::uint64_t>(total < 0 ? -total : total) * sa.significand * sb.significand;
    sum.exponent += sa.exponent + sb.exponent + 2 * fs.mantissa_bits;
    sum.fraction += 2 * fs.mantissa_bits;
    if (!any || sa.significand == 0 || sb.significand == 0) sum.exponent = detail::no_exponent;
    terms[count++] = sum;
  }
  if (specials.any()) return specials.code(fc);
  terms[count] = detail::term_of(addend, fc);
  if (addend.significand == 0) terms[count].exponent = detail::no_exponent;
  ++count;
  return detail::add_terms(m, std::span<const DotTerm>(terms.data(), count), watch);
}

}  // namespace narrow
