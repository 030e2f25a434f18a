// Order of codes by value, and the minimum and maximum of IEEE 754-2019 in both readings of NaN.
#pragma once

#include <compare>

#include "narrow/format/neighbours.hpp"

namespace narrow {

// By value: -0 equals +0, NaN is unordered.
constexpr std::partial_ordering compare(Code a, Code b, const Format& f) noexcept {
  if (is_nan(a, f) || is_nan(b, f)) return std::partial_ordering::unordered;
  return ordinal(a, f) <=> ordinal(b, f);
}

constexpr Code negate(Code a, const Format& f) noexcept {
  if (!f.has_sign) return f.has_nan() ? f.nan_code() : a;
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
