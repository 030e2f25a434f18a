// Codes in the order of their values: neighbours and distances in units of the last place.
//
//   static_assert(next_up(encode(1.0F, "bf16"_fmt), "bf16"_fmt) == encode(1.0078125F, "bf16"_fmt));
//   static_assert(ulp_distance(0x3C00, 0x3C05, "fp16"_fmt) == 5);
#pragma once

#include "narrow/format/decode.hpp"

namespace narrow {

// A signed integer that grows with the value, by one from each value to the next; both zeros are 0, Inf is one
// beyond the largest finite value. Not for NaN.
constexpr std::int64_t ordinal(Code code, const Format& f) noexcept {
  const auto magnitude = static_cast<std::int64_t>(magnitude_of(code, f));
  return is_negative(code, f) ? -magnitude : magnitude;
}

// The code at that place; the other way round.
constexpr Code from_ordinal(std::int64_t ordinal, const Format& f) noexcept {
  const bool negative = ordinal < 0;
  return f.with_sign(static_cast<Code>(negative ? -ordinal : ordinal), negative);
}

// The next value above. The top value (Inf, or the largest where there is no Inf) and NaN stay. The value above the
// smallest negative one is zero, as -0 where that exists (IEEE 754 nextUp).
constexpr Code next_up(Code code, const Format& f) noexcept {
  if (is_nan(code, f)) return code;
  const Code top = f.has_infinity() ? f.infinity_code() : f.max_code();
  const std::int64_t place = ordinal(code, f);
  if (place == ordinal(top, f)) return top;
  return place == -1 ? f.zero_code(true) : from_ordinal(place + 1, f);
}

// The next smaller value.
constexpr Code next_down(Code code, const Format& f) noexcept {
  if (is_nan(code, f)) return code;
  const Code bottom = f.has_infinity() && f.has_sign ? f.infinity_code(true) : f.max_code(true);
  const std::int64_t place = ordinal(code, f);
  if (place == ordinal(bottom, f)) return bottom;
  return place == 1 ? f.zero_code() : from_ordinal(place - 1, f);
}

// How many values apart: 0 for equal values (both zeros, any two NaN), the largest integer when one is NaN.
constexpr std::uint64_t ulp_distance(Code a, Code b, const Format& f) noexcept {
  if (is_nan(a, f) || is_nan(b, f)) return is_nan(a, f) && is_nan(b, f) ? 0 : ~0ull;
  const std::int64_t x = ordinal(a, f), y = ordinal(b, f);
  return x > y ? static_cast<std::uint64_t>(x) - static_cast<std::uint64_t>(y)
               : static_cast<std::uint64_t>(y) - static_cast<std::uint64_t>(x);
}

}  // namespace narrow
