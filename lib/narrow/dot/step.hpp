// One step of a tensor core: some products and an addend, fused. Read it beside the row of the model.
#pragma once

#include <span>

#include "narrow/dot/model.hpp"
#include "narrow/round/convert.hpp"

namespace narrow {

// (-1)^negative * significand * 2^(exponent - fraction): exponent is that of the unit place, never normalised. A
// subnormal keeps the exponent of the smallest normal value, and 1.5 * 1.5 has the exponent 0, as 1 * 1 has.
struct DotTerm {
  bool negative = false;
  std::uint64_t significand = 0;
  int exponent = 0;
  int fraction = 0;
};

// Who wants to see a step from inside derives from this and hides what it wants to know.
struct NoWatch {
  constexpr void largest(int /*exponent*/) noexcept {}
  constexpr void term(std::size_t /*index*/, const DotTerm&, std::uint64_t /*kept*/) noexcept {}  // not zero; c comes last
  constexpr void sum(std::int64_t /*quanta*/, Code /*result*/) noexcept {}
};

namespace detail {

constexpr DotTerm term_of(const Unpacked& u, const Format& f) noexcept {
  return {u.negative, u.significand, u.exponent + f.mantissa_bits, f.mantissa_bits};
}
constexpr DotTerm product_of(const Unpacked& x, const Format& fx, const Unpacked& y, const Format& fy) noexcept {
  return {x.negative != y.negative, x.significand * y.significand,
          x.exponent + fx.mantissa_bits + y.exponent + fy.mantissa_bits, fx.mantissa_bits + fy.mantissa_bits};
}

// What NaN and Inf make of a step: any NaN, Inf * 0 and Inf - Inf give NaN, else an Inf wins.
struct DotSpecials {
  bool nan = false, plus = false, minus = false;

  constexpr void infinite(bool negative) noexcept { (negative ? minus : plus) = true; }
  constexpr void product(const Unpacked& x, const Unpacked& y) noexcept {
    if (x.is_nan() || y.is_nan() || (x.is_inf() && y.is_zero()) || (x.is_zero() && y.is_inf())) nan = true;
    else if (x.is_inf() || y.is_inf()) infinite(x.negative != y.negative);
  }
  constexpr void addend(const Unpacked& c) noexcept {
    if (c.is_nan()) nan = true;
    else if (c.is_inf()) infinite(c.negative);
  }
  constexpr bool any() const noexcept { return nan || plus || minus; }
  constexpr Code code(const Format& f) const noexcept {
    return nan || (plus && minus) ? f.nan_code() : f.infinity_code(minus);
  }
};

// The term as a whole number of quanta 2^lowest: bits below are cut from the magnitude, so toward zero.
//   largest  1.xxxx|            F = 4
//   d = 3    0.001x|xxx  <-     cut here
constexpr std::uint64_t cut_term(const DotTerm& t, int lowest) noexcept {
  const int shift = t.exponent - t.fraction - lowest;
  return shift >= 0 ? t.significand << shift : shift_right(t.significand, -shift);
}

// quanta * 2^lowest in the accumulator. From 2^(emax + 1) on it is Inf also where the rounding is toward zero, and what
// underflows to zero is +0, whatever its sign was.
constexpr Code round_sum(const DotModel& m, std::int64_t quanta, int lowest) noexcept {
  if (quanta == 0) return 0;
  const bool negative = quanta < 0;
  const std::uint64_t magnitude = negative ? 0 - static_cast<std::uint64_t>(quanta) : static_cast<std::uint64_t>(quanta);
  const Format& out = m.accumulator.format;
  if (lowest + bit_length(magnitude) - 1 > m.result.max_exponent()) return out.infinity_code(negative);
  const Code code = round_significand(negative, magnitude, lowest, false, m.result, Cast{.rounding = m.rounding}, 0);
  if ((code & m.result.magnitude_mask()) == 0) return 0;
  // Fewer bits of the accumulator's mantissa: the same exponent field, zeros below.
  return code << (out.mantissa_bits - m.result.mantissa_bits);
}

}  // namespace detail

// Products a[i] * b[i] and c, of at most products_per_step products; missing ones are zero products. All terms share one
// exponent, the largest, before they are added. So the sum depends on which terms meet in one step, but not on their order
// within it: integers add exactly. Cancellation of the largest terms does not bring the cut bits back.
// Width: |term| < 4 * 2^F and |c| < 2 * 2^F, so 32 products and c at F = 25 stay below 2^33.
template <class Watch = NoWatch>
constexpr Code fused_step(const DotModel& m, std::span<const Code> a, std::span<const Code> b, Code c,
                          Watch&& watch = Watch{}) noexcept {
  // FP8 mma.sync widens its operands to fp16 first, where e4m3's subnormals are normal and have exponents of their own.
  const bool widened = m.rule == DotRule::fused_pair_then_add;
  const Format fa = widened ? ieee(5, 10) : m.a.format, fb = widened ? ieee(5, 10) : m.b.format;
  const Format& fc = m.accumulator.format;
  const auto operand = [&](Code code, const Format& narrow_format, const Format& f) {
    return unpack(widened ? convert(code, narrow_format, f) : code, f);
  };
  const Unpacked addend = unpack(c, fc);
  detail::DotSpecials specials;
  specials.addend(addend);

  // A zero product never counts for the largest exponent, whatever its partner; nor does a zero c.
  int largest = m.exponent_floor;
  if (addend.significand != 0 && detail::term_of(addend, fc).exponent > largest) largest = detail::term_of(addend, fc).exponent;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Unpacked x = operand(a[i], m.a.format, fa), y = operand(b[i], m.b.format, fb);
    specials.product(x, y);
    const DotTerm t = detail::product_of(x, fa, y, fb);
    if (t.significand != 0 && t.exponent > largest) largest = t.exponent;
  }
  if (specials.any()) return specials.code(fc);
  watch.largest(largest);

  const int lowest = largest - m.fraction_bits;
  std::int64_t sum = 0;
  const auto add = [&](std::size_t index, const DotTerm& t) {
    if (t.significand == 0) return;
    const std::uint64_t kept = detail::cut_term(t, lowest);
    watch.term(index, t, kept);
    sum += t.negative ? -static_cast<std::int64_t>(kept) : static_cast<std::int64_t>(kept);
  };
  for (std::size_t i = 0; i < a.size(); ++i) add(i, detail::product_of(operand(a[i], m.a.format, fa), fa, operand(b[i], m.b.format, fb), fb));
  add(a.size(), detail::term_of(addend, fc));
  const Code result = detail::round_sum(m, sum, lowest);
  watch.sum(sum, result);
  return result;
}

}  // namespace narrow
