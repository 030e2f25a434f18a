// Conversions from float and double: to a code (encode) and to the nearest value in the same carrier (round_to).
//
//   static_assert(encode(1e-8F, "fp16"_fmt) == 0);                           // lost
//   static_assert(round_to(1e-8F * 1024, "fp16"_fmt) != 0);                  // kept by a loss scale
//   static_assert(overflows(70000.0F, "fp16"_fmt));
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

// Does a value overflow? Whether its rounding, with no upper limit on the exponent, is beyond the largest finite value.
// x must be finite. Independent of what the cast makes of the overflow: an inward mode that stays at the largest value
// has overflowed as well. Negative values in a format without sign are no overflow.
template <Carrier T>
constexpr bool overflows(T x, const Format& f, const Cast& cast = {}, std::uint64_t random = 0) noexcept {
  auto value = static_cast<double>(x);
  if (sizeof(T) == 8 && cast.through_fp32) value = round_to(value, detail::carrier_format<float>);
  if (value - value != 0) return true;  // beyond FP32 on the way
  const bool negative = value < 0;
  if (negative && !f.has_sign) return false;
  const double limit = negative ? -lowest(f) : largest(f);
  if ((negative ? -value : value) <= limit) return false;
  // The same format with one more exponent bit (an integer with two more digits) has the same quantum at the limit.
  // Far beyond, it saturates in its turn, still beyond the limit.
  Cast rounding{.rounding = cast.rounding, .random_bits = cast.random_bits};
  if (f.exponent_bits >= 11) {  // beyond double's own exponents only a carry can lead
    const Code code = encode(value, f, rounding, random);
    return is_inf(code, f) || is_nan(code, f);
  }
  Format larger = f;
  if (f.is_integer()) larger.mantissa_bits += 2, larger.bias -= 2;
  else larger.exponent_bits += 1;
  if (!f.ties_to_even_code()) larger.specials = Specials::none;
  rounding.overflow = Overflow::saturate;
  const double rounded = decode(encode(value, larger, rounding, random), larger);
  return (negative ? -rounded : rounded) > limit;
}

}  // namespace narrow
