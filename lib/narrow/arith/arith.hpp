// Arithmetic on codes of one format, correctly rounded in every mode: specials first, then exact, then one rounding.
// NaN operands give NaN as the cast says (payload of the first), invalid operations the positive quiet NaN.
//
//   constexpr Format f = "e4m3"_fmt;
//   static_assert(decode(add(encode(1.0F, f), encode(0.0625F, f), f), f) == 1);  // 1.0625 is a tie: to even
//   static_assert(compare(encode(1.0F, f), encode(2.0F, f), f) < 0);
#pragma once

#include <compare>
#include <initializer_list>

#include "narrow/arith/exact.hpp"
#include "narrow/format/neighbours.hpp"
#include "narrow/round/convert.hpp"

namespace narrow {

namespace detail {

constexpr Code invalid(const Format& f, const Cast& cast) noexcept { return nan_to(false, quiet_payload, f, cast.nan); }

// IEEE 754 section 6.3: an exact zero sum of unlike signs is +0, but -0 when rounding down.
constexpr bool zero_sum_is_negative(bool a, bool b, const Cast& cast) noexcept {
  return a == b ? a : cast.rounding == Rounding::down;
}

constexpr Code add_unpacked(const Unpacked& a, const Unpacked& b, const Format& f, const Cast& cast,
                            std::uint64_t random) noexcept {
  if (a.is_inf() && b.is_inf() && a.negative != b.negative) return invalid(f, cast);
  if (a.is_inf() || b.is_inf()) return infinity_to(a.is_inf() ? a.negative : b.negative, f, cast);
  return round_exact(exact_sum(to_exact(a), to_exact(b), zero_sum_is_negative(a.negative, b.negative, cast)), f, cast,
                     random);
}

}  // namespace detail

// Correct because exact_sum is exact, or cut at least 64 bits below the last bit kept with a sticky bit.
constexpr Code add(Code a, Code b, const Format& f, const Cast& cast = {}, std::uint64_t random = 0) noexcept {
  if (is_nan(a, f) || is_nan(b, f)) return detail::propagate(is_nan(a, f) ? a : b, f, f, cast);
  return detail::add_unpacked(detail::operand(a, f, cast), detail::operand(b, f, cast), f, cast, random);
}

// a + (-b): the sign is turned on the unpacked value, since formats without -0 have no code for it.
constexpr Code sub(Code a, Code b, const Format& f, const Cast& cast = {}, std::uint64_t random = 0) noexcept {
  if (is_nan(a, f) || is_nan(b, f)) return detail::propagate(is_nan(a, f) ? a : b, f, f, cast);
  Unpacked minus_b = detail::operand(b, f, cast);
  minus_b.negative = !minus_b.negative;
  return detail::add_unpacked(detail::operand(a, f, cast), minus_b, f, cast, random);
}

// Correct because the product of two significands of at most 53 bits fits 106 bits: exact, then one rounding.
constexpr Code mul(Code a, Code b, const Format& f, const Cast& cast = {}, std::uint64_t random = 0) noexcept {
  if (is_nan(a, f) || is_nan(b, f)) return detail::propagate(is_nan(a, f) ? a : b, f, f, cast);
  const Unpacked x = detail::operand(a, f, cast), y = detail::operand(b, f, cast);
  if ((x.is_inf() && y.is_zero()) || (x.is_zero() && y.is_inf())) return detail::invalid(f, cast);
  if (x.is_inf() || y.is_inf()) return detail::infinity_to(x.negative != y.negative, f, cast);
  return round_exact(detail::exact_product(x, y), f, cast, random);
}

// Correct because 126 quotient bits and "is there a remainder" decide every rounding: 53 kept, 64 of fraction.
// x / 0 is infinite with the sign of the operands (so the special of the format, or its largest value).
constexpr Code div(Code a, Code b, const Format& f, const Cast& cast = {}, std::uint64_t random = 0) noexcept {
  if (is_nan(a, f) || is_nan(b, f)) return detail::propagate(is_nan(a, f) ? a : b, f, f, cast);
  const Unpacked x = detail::operand(a, f, cast), y = detail::operand(b, f, cast);
  const bool negative = x.negative != y.negative;
  if ((x.is_inf() && y.is_inf()) || (x.is_zero() && y.is_zero())) return detail::invalid(f, cast);
  if (x.is_inf() || y.is_zero()) return detail::infinity_to(negative, f, cast);
  if (y.is_inf()) return detail::zero_to(negative, f, cast);
  return round_exact(detail::exact_quotient(x, y), f, cast, random);
}

// Correct because 118 root bits and "is there a remainder" decide every rounding. sqrt(-0) = -0.
constexpr Code sqrt(Code a, const Format& f, const Cast& cast = {}, std::uint64_t random = 0) noexcept {
  if (is_nan(a, f)) return detail::propagate(a, f, f, cast);
  const Unpacked x = detail::operand(a, f, cast);
  if (x.negative && !x.is_zero()) return detail::invalid(f, cast);
  if (x.is_inf()) return detail::infinity_to(false, f, cast);
  return round_exact(detail::exact_sqrt(x), f, cast, random);
}

// a * b + c with one rounding: the product is exact (106 bits) and joins the sum as it is.
constexpr Code fma(Code a, Code b, Code c, const Format& f, const Cast& cast = {}, std::uint64_t random = 0) noexcept {
  for (const Code code : {a, b, c})
    if (is_nan(code, f)) return detail::propagate(code, f, f, cast);
  const Unpacked x = detail::operand(a, f, cast), y = detail::operand(b, f, cast), z = detail::operand(c, f, cast);
  const bool negative = x.negative != y.negative;
  if ((x.is_inf() && y.is_zero()) || (x.is_zero() && y.is_inf())) return detail::invalid(f, cast);
  const bool product_is_inf = x.is_inf() || y.is_inf();
  if (product_is_inf && z.is_inf() && negative != z.negative) return detail::invalid(f, cast);
  if (product_is_inf || z.is_inf()) return detail::infinity_to(product_is_inf ? negative : z.negative, f, cast);
  const Exact sum = detail::exact_sum(detail::exact_product(x, y), detail::to_exact(z),
                                      detail::zero_sum_is_negative(negative, z.negative, cast));
  return round_exact(sum, f, cast, random);
}

// The nearest integer in the direction of the mode, with the sign of the operand also when it is zero. Where that
// integer is beyond the largest value (e3m4: 15.5 to 16) the cast's overflow rule applies.
constexpr Code round_to_integral(Code code, const Format& f, const Cast& cast = {}, std::uint64_t random = 0) noexcept {
  if (is_nan(code, f)) return detail::propagate(code, f, f, cast);
  const Unpacked u = detail::operand(code, f, cast);
  if (u.is_inf()) return detail::infinity_to(u.negative, f, cast);
  if (u.exponent >= 0) return code & f.code_mask();
  const detail::Cut cut = detail::cut_at(u.significand, -u.exponent, false);
  const bool up = decide(cast, u.negative, (cut.kept & 1) != 0, cut.rest, cut.below, random);
  return detail::round_significand(u.negative, cut.kept + (up ? 1 : 0), 0, false, f, cast, random);
}

// Order of codes, and the minimum and maximum of IEEE 754-2019 in both readings of NaN.

// By value: -0 equals +0, NaN is unordered.
constexpr std::partial_ordering compare(Code a, Code b, const Format& f) noexcept {
  if (is_nan(a, f) || is_nan(b, f)) return std::partial_ordering::unordered;
  return ordinal(a, f) <=> ordinal(b, f);
}

// The other sign, and none.
constexpr Code negate(Code a, const Format& f) noexcept {
  if (!f.has_sign) return f.has_nan() && !(a == 0 && f.has_zero) ? f.nan_code() : 0;
  if (f.twos_complement) return a == f.sign_mask() ? f.max_code() : (0 - a) & f.code_mask();
  const bool unsigned_zero = !f.has_negative_zero() && (a & f.magnitude_mask()) == 0;  // fnuz: 0 and the NaN stay
  return unsigned_zero ? a : a ^ f.sign_mask();
}
constexpr Code absolute(Code a, const Format& f) noexcept {
  return is_negative(a, f) && !is_nan(a, f) ? negate(a, f) : a & ~(f.has_negative_zero() ? f.sign_mask() : 0);
}

namespace detail {
// -0 counts as less than +0, as IEEE 754-2019 section 9.6 asks.
constexpr bool is_less(Code a, Code b, const Format& f) noexcept {
  const auto x = ordinal(a, f), y = ordinal(b, f);
  return x != y ? x < y : is_negative(a, f) && !is_negative(b, f);
}
}  // namespace detail

// A NaN operand gives that NaN.
constexpr Code minimum(Code a, Code b, const Format& f) noexcept {
  if (is_nan(a, f) || is_nan(b, f)) return is_nan(a, f) ? a : b;
  return detail::is_less(b, a, f) ? b : a;
}
constexpr Code maximum(Code a, Code b, const Format& f) noexcept {
  if (is_nan(a, f) || is_nan(b, f)) return is_nan(a, f) ? a : b;
  return detail::is_less(a, b, f) ? b : a;
}
// A NaN operand loses against a number (C's fmin and fmax, CUDA's min and max).
constexpr Code minimum_number(Code a, Code b, const Format& f) noexcept {
  return is_nan(a, f) ? b : is_nan(b, f) ? a : minimum(a, b, f);
}
constexpr Code maximum_number(Code a, Code b, const Format& f) noexcept {
  return is_nan(a, f) ? b : is_nan(b, f) ? a : maximum(a, b, f);
}

}  // namespace narrow
