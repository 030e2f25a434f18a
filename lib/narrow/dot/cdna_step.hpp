// One step of AMD's matrix cores. They differ from generation to generation more than NVIDIA's do.
#pragma once

#include "narrow/arith/arith.hpp"
#include "narrow/dot/step.hpp"
#include "narrow/dot/wide_sum.hpp"

namespace narrow {

namespace detail {

constexpr DotSpecials specials_of(const DotModel& m, std::span<const Code> a, std::span<const Code> b, Code c) noexcept {
  DotSpecials specials;
  specials.addend(unpack(c, m.accumulator.format));
  for (std::size_t i = 0; i < a.size(); ++i) specials.product(unpack(a[i], m.a.format), unpack(b[i], m.b.format));
  return specials;
}

// x / 2^n rounded toward minus infinity, for any n >= 0; x * 2^-n for n < 0.
constexpr std::int64_t floor_shift(std::int64_t x, int n) noexcept {
  if (n < 0) return static_cast<std::int64_t>(static_cast<std::uint64_t>(x) << -n);
  return n > 62 ? (x < 0 ? -1 : 0) : x >> n;
}

// Some products aligned to their own largest exponent and cut toward zero at F bits below it.
struct AlignedSum {
  std::int64_t quanta = 0;
  int largest = -1000;  // none
};

constexpr AlignedSum aligned_sum(const DotModel& m, std::span<const Code> a, std::span<const Code> b, std::size_t first,
                                 std::size_t stride) noexcept {
  AlignedSum s;
  const auto product = [&](std::size_t i) {
    return product_of(unpack(a[i], m.a.format), m.a.format, unpack(b[i], m.b.format), m.b.format);
  };
  for (std::size_t i = first; i < a.size(); i += stride)
    if (const DotTerm t = product(i); t.significand != 0 && t.exponent > s.largest) s.largest = t.exponent;
  for (std::size_t i = first; i < a.size(); i += stride)
    if (const DotTerm t = product(i); t.significand != 0) {
      const auto kept = static_cast<std::int64_t>(cut_term(t, s.largest - m.fraction_bits));
      s.quanta += t.negative ? -kept : kept;
    }
  return s;
}

}  // namespace detail

// CDNA1: the exact sum of the products and c, rounded once to nearest even.
constexpr Code exact_step(const DotModel& m, std::span<const Code> a, std::span<const Code> b, Code c) noexcept {
  if (const auto specials = detail::specials_of(m, a, b, c); specials.any()) return specials.code(m.accumulator.format);
  WideSum sum;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Unpacked x = unpack(a[i], m.a.format), y = unpack(b[i], m.b.format);
    sum.add(x.negative != y.negative, U128{x.significand} * y.significand, x.exponent + y.exponent);
  }
  const Unpacked addend = unpack(c, m.accumulator.format);
  sum.add(addend.negative, addend.significand, addend.exponent);
  return round_exact(sum.exact(), m.accumulator.format);
}

// CDNA2: (p0 + p1) + (p2 + p3), then c plus that; products and sums rounded to nearest even in FP32. Subnormal operands
// and c count as +0, subnormal results become zero with their sign.
constexpr Code flushed_pairs_step(const DotModel& m, std::span<const Code> a, std::span<const Code> b, Code c) noexcept {
  const Format& f = m.accumulator.format;
  constexpr Cast flush{.subnormals = Subnormals::flush_results};
  const auto widened = [&](Code code, const Format& from) {
    return classify(code, from) == ValueClass::subnormal ? Code{0} : convert(code, from, f);
  };
  std::array<Code, 4> p{};
  for (std::size_t i = 0; i < a.size(); ++i)
    p[i] = mul(widened(a[i], m.a.format), widened(b[i], m.b.format), f, flush);
  const Code low = m.products_per_step > 1 ? add(p[0], p[1], f, flush) : p[0];
  const Code sum = m.products_per_step > 2 ? add(low, add(p[2], p[3], f, flush), f, flush) : low;
  return add(widened(c, f), sum, f, flush);
}

// CDNA3: the products aligned and cut (F bits), without c. Then their sum and c are aligned to the larger exponent and cut
// toward minus infinity, c at F bits and the sum at 31; rounded to nearest even. A product of 2^128 or more counts as Inf,
// a zero c as 2^-126. In the FP8 form even and odd k are summed apart and joined with a floor at F bits, and a c far below
// (more than 25 binades) is dropped. The floors make the result depend on the sign: -a does not give -d.
constexpr Code two_stage_step(const DotModel& m, std::span<const Code> a, std::span<const Code> b, Code c) noexcept {
  const Format& f = m.accumulator.format;
  detail::DotSpecials specials = detail::specials_of(m, a, b, c);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const DotTerm t = detail::product_of(unpack(a[i], m.a.format), m.a.format, unpack(b[i], m.b.format), m.b.format);
    if (t.significand != 0 && t.exponent - t.fraction + bit_length(t.significand) - 1 > f.max_exponent())
      specials.infinite(t.negative);
  }
  if (specials.any()) return specials.code(f);

  const bool halves = m.rule == DotRule::two_stage_halves;
  detail::AlignedSum s = detail::aligned_sum(m, a, b, 0, halves ? 2 : 1);
  if (halves) {
    const detail::AlignedSum odd = detail::aligned_sum(m, a, b, 1, 2);
    const int largest = s.largest > odd.largest ? s.largest : odd.largest;
    s = {detail::floor_shift(s.quanta, largest - s.largest) + detail::floor_shift(odd.quanta, largest - odd.largest), largest};
  }
  const Unpacked addend = unpack(c, f);
  DotTerm t = detail::term_of(addend, f);
  if (t.significand == 0) t.exponent = f.min_exponent();
  if (halves && t.exponent < s.largest - 25) t.significand = 0;
  const int largest = s.largest > t.exponent ? s.largest : t.exponent;

  // Both as quanta of 2^(largest - 31).
  const int lowest = largest - 31;
  const std::int64_t sum = detail::floor_shift(s.quanta, lowest - (s.largest - m.fraction_bits));
  const auto signed_c = static_cast<std::int64_t>(t.significand) * (t.negative ? -1 : 1);
  const std::int64_t c_cut = detail::floor_shift(signed_c, largest - m.fraction_bits - (t.exponent - t.fraction));
  const std::int64_t total = sum + c_cut * (std::int64_t{1} << (31 - m.fraction_bits));
  if (total == 0) return 0;
  const auto magnitude = static_cast<std::uint64_t>(total < 0 ? -total : total);
  return detail::round_significand(total < 0, magnitude, lowest, false, f, Cast{}, 0);
}

}  // namespace narrow
