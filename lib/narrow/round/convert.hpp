// From a code of one format to a code of another.
//
//   static_assert(convert(0x3F80, "bf16"_fmt, "fp16"_fmt) == 0x3C00);  // 1
#pragma once

#include "narrow/round/round_exact.hpp"

namespace narrow {

namespace detail {

inline constexpr std::uint64_t quiet_payload = 1ull << 51;

// What a NaN code gives in a format; payloads exist only where the format has Inf beside NaN.
constexpr Code propagate(Code code, const Format& from, const Format& to, const Cast& cast) noexcept {
  const std::uint64_t payload =
      from.specials == Specials::inf_and_nan ? (code & from.mantissa_mask()) << (52 - from.mantissa_bits) : quiet_payload;
  return nan_to(is_negative(code, from) && !from.has_nan_at_negative_zero(), payload, to, cast.nan);
}

// flush_inputs: an operand that is subnormal counts as zero with its sign.
constexpr Unpacked operand(Code code, const Format& f, const Cast& cast) noexcept {
  Unpacked u = unpack(code, f);
  if (u.value_class == ValueClass::subnormal && cast.subnormals == Subnormals::flush_inputs)
    u.value_class = ValueClass::zero, u.significand = 0;
  return u;
}

}  // namespace detail

// The value of a code in another format: one rounding, straight from the code.
constexpr Code convert(Code code, const Format& from, const Format& to, const Cast& cast = {},
                       std::uint64_t random = 0) noexcept {
  if (is_nan(code, from)) return detail::propagate(code, from, to, cast);
  const Unpacked u = detail::operand(code, from, cast);
  if (u.is_inf()) return detail::infinity_to(u.negative, to, cast);
  return detail::round_significand(u.negative, u.significand, u.exponent, false, to, cast, random);
}

}  // namespace narrow
