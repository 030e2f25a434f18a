// Conversions from float and double: to a code (encode) and to the nearest value in the same carrier (round_to).
#pragma once

#include <concepts>

#include "narrow/format/find_format.hpp"
#include "narrow/round/round_exact.hpp"

namespace narrow {

template <class T>
concept Carrier = std::same_as<T, float> || std::same_as<T, double>;

namespace detail {

template <Carrier T>
inline constexpr Format carrier_format = sizeof(T) == 4 ? "fp32"_fmt : "fp64"_fmt;

template <Carrier T>
constexpr Code carrier_code(T x) noexcept {
  if constexpr (sizeof(T) == 4) return std::bit_cast<std::uint32_t>(x);
  else return std::bit_cast<std::uint64_t>(x);
}

}  // namespace detail

// One rounding, whatever the carrier and the format.
template <Carrier T>
constexpr Code encode(T x, const Format& f, const Cast& cast = {}, std::uint64_t random = 0) noexcept {
  constexpr Format carrier = detail::carrier_format<T>;
  const Code bits = detail::carrier_code(x);
  const Unpacked u = unpack(bits, carrier);
  if (u.is_nan()) {
    const Nan rule = sizeof(T) == 8 && cast.double_keeps_nan ? Nan::keep_payload : cast.nan;
    return detail::nan_to(u.negative, (bits & carrier.mantissa_mask()) << (52 - carrier.mantissa_bits), f, rule);
  }
  if (u.is_inf()) return detail::infinity_to(u.negative, f, cast);
  if (u.value_class == ValueClass::subnormal && cast.subnormals == Subnormals::flush_inputs)
    return detail::round_significand(u.negative, std::uint64_t{0}, 0, false, f, cast, random);
  if constexpr (sizeof(T) == 8) {
    if (cast.through_fp32) {
      const Code narrowed = detail::round_significand(u.negative, u.significand, u.exponent, false, detail::carrier_format<float>, {}, 0);
      return encode(std::bit_cast<float>(static_cast<std::uint32_t>(narrowed)), f, cast, random);
    }
  }
  return detail::round_significand(u.negative, u.significand, u.exponent, false, f, cast, random);
}

// Value to value. A result that the carrier cannot hold (a format with a wider range than float, next to its end)
// becomes the carrier's infinity.
template <Carrier T>
constexpr T round_to(T x, const Format& f, const Cast& cast = {}, std::uint64_t random = 0) noexcept {
  return detail::in_carrier<T>(decode(encode(x, f, cast, random), f));
}

// The same with format and cast folded into the code.
template <Format F, Cast C = Cast{}, Carrier T>
constexpr T round_to(T x, std::uint64_t random = 0) noexcept {
  return round_to(x, F, C, random);
}

}  // namespace narrow
