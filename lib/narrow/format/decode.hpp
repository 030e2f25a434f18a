// From a code to its value: class, fields, and the exact value as a double.
//
//   static_assert(decode(0x2E66, "fp16"_fmt) == 0.0999755859375);
//   static_assert(classify(0x0001, "fp16"_fmt) == ValueClass::subnormal);
//   static_assert(largest("e4m3"_fmt) == 448);
#pragma once

#include "narrow/format/format.hpp"

namespace narrow {

// What kind of value a code has.
enum class ValueClass : std::uint8_t { zero, subnormal, normal, inf, nan };

// A finite value is (-1)^negative * significand * 2^exponent; significand and exponent are 0 for Inf and NaN.
struct Unpacked {
  ValueClass value_class = ValueClass::zero;
  bool negative = false;
  std::uint64_t significand = 0;
  int exponent = 0;

  constexpr bool is_nan() const noexcept { return value_class == ValueClass::nan; }
  constexpr bool is_inf() const noexcept { return value_class == ValueClass::inf; }
  constexpr bool is_zero() const noexcept { return value_class == ValueClass::zero; }
  constexpr bool is_finite() const noexcept { return !is_nan() && !is_inf(); }
};

// Questions about a code.
constexpr bool is_negative(Code code, const Format& f) noexcept { return (code & f.sign_mask()) != 0; }

// The code without its sign: for two's complement the absolute value.
constexpr Code magnitude_of(Code code, const Format& f) noexcept {
  if (f.twos_complement && is_negative(code, f)) return (0 - code) & f.code_mask();
  return code & f.magnitude_mask();
}

// Whether the code is a NaN.
constexpr bool is_nan(Code code, const Format& f) noexcept {
  switch (f.specials) {
    case Specials::inf_and_nan: return (code & f.magnitude_mask()) > f.infinity_code();
    case Specials::nan_only: return (code & f.magnitude_mask()) == f.magnitude_mask();
    case Specials::nan_is_negative_zero:
    case Specials::extended: return (code & f.code_mask()) == f.nan_code();
    case Specials::none: break;
  }
  return false;
}
// Whether the code is an infinity.
constexpr bool is_inf(Code code, const Format& f) noexcept {
  return f.has_infinity() && (code & f.magnitude_mask()) == f.infinity_code();
}

// Sign, significand and exponent of a code.
constexpr Unpacked unpack(Code code, const Format& f) noexcept {
  Unpacked u;
  u.negative = is_negative(code, f);
  const Code magnitude = magnitude_of(code, f);
  // Above the finite magnitudes, or where the code of -0 stands for it.
  if (magnitude > f.max_magnitude(u.negative) || f.has_nan_at_negative_zero()) {
    if (is_nan(code, f)) return u.value_class = ValueClass::nan, u;
    if (is_inf(code, f)) return u.value_class = ValueClass::inf, u;
  }
  if (f.is_integer()) {
    u.value_class = magnitude == 0 ? ValueClass::zero : ValueClass::normal;
    u.significand = magnitude;
    u.exponent = f.min_quantum_exponent();
    return u;
  }
  const auto field = static_cast<int>(magnitude >> f.mantissa_bits);
  const Code mantissa = magnitude & f.mantissa_mask();
  if (field == 0 && f.has_zero) {
    u.value_class = mantissa == 0 ? ValueClass::zero : ValueClass::subnormal;
    u.significand = mantissa;
    u.exponent = f.min_quantum_exponent();
  } else {
    u.value_class = ValueClass::normal;
    u.significand = mantissa | (1ull << f.mantissa_bits);
    u.exponent = field - f.bias - f.mantissa_bits;
  }
  return u;
}

// The class alone.
constexpr ValueClass classify(Code code, const Format& f) noexcept { return unpack(code, f).value_class; }

// (-1)^negative * significand * 2^exponent as a double; the value must be one that double holds.
constexpr double compose(bool negative, std::uint64_t significand, int exponent) noexcept {
  const std::uint64_t sign = negative ? 1ull << 63 : 0;
  if (significand == 0) return std::bit_cast<double>(sign);
  const int length = bit_length(significand);
  const int top = exponent + length - 1;
  if (top < -1022) return std::bit_cast<double>(sign | significand << (exponent + 1074));
  // The implicit bit adds one to the exponent field, hence 1022 and not 1023.
  const std::uint64_t aligned = length <= 53 ? significand << (53 - length) : significand >> (length - 53);
  return std::bit_cast<double>(sign | ((static_cast<std::uint64_t>(top + 1022) << 52) + aligned));
}

// Exact. A NaN keeps its sign (where the format has signs of NaN) and its payload, left-aligned, and is quiet: a
// signalling double would change on its way through registers of some machines.
constexpr double decode(Code code, const Format& f) noexcept {
  const Unpacked u = unpack(code, f);
  const std::uint64_t sign = u.negative ? 1ull << 63 : 0;
  if (u.is_inf()) return std::bit_cast<double>(sign | 0x7FF0000000000000ull);
  if (u.is_nan()) {
    if (f.specials == Specials::nan_is_negative_zero || f.specials == Specials::extended)
      return std::bit_cast<double>(0x7FF8000000000000ull);
    const std::uint64_t payload = (code & f.mantissa_mask()) << (52 - f.mantissa_bits);
    return std::bit_cast<double>(sign | 0x7FF8000000000000ull | payload);
  }
  return compose(u.negative, u.significand, u.exponent);
}

namespace detail {

// x as a double, or as the nearest float (a tie to even). By integers: a conversion of the machine obeys the rounding
// mode and flush-to-zero of the caller. A NaN keeps its sign and its upper payload bits and is quiet.
template <class T>
constexpr T in_carrier(double x) noexcept {
  if constexpr (sizeof(T) == 8) {
    return x;
  } else {
    const auto word = std::bit_cast<std::uint64_t>(x);
    const auto sign = static_cast<std::uint32_t>(word >> 32) & 0x80000000u;
    const int exponent = static_cast<int>(word >> 52 & 0x7FF) - 1023;
    const std::uint64_t mantissa = word & low_mask(52);
    if (exponent > 127) {
      const bool is_nan = exponent == 1024 && mantissa != 0;
      const auto payload = static_cast<std::uint32_t>(mantissa >> 29) | 0x400000u;
      return std::bit_cast<float>(sign | 0x7F800000u | (is_nan ? payload : 0));
    }
    // Below 2^-126 the last place stays at 2^-149; a double's own subnormals are far below half of it.
    const bool is_normal = exponent >= -126;
    const std::uint64_t significand = exponent == -1023 ? 0 : mantissa | 1ull << 52;
    const int cut = is_normal ? 29 : exponent < -160 ? 63 : -97 - exponent;
    const std::uint64_t kept = significand >> cut, rest = significand & low_mask(cut), half = 1ull << (cut - 1);
    const std::uint64_t rounded = kept + (rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0);
    // The implicit bit adds one to the exponent field, and a carry moves into it by itself, up to Inf.
    const std::uint32_t field = is_normal ? static_cast<std::uint32_t>(exponent + 126) << 23 : 0;
    return std::bit_cast<float>(sign | (field + static_cast<std::uint32_t>(rounded)));
  }
}

}  // namespace detail

// The limits of a format as values.
constexpr double largest(const Format& f) noexcept { return decode(f.max_code(), f); }
// The most negative finite value; 0 in formats without sign.
constexpr double lowest(const Format& f) noexcept { return decode(f.max_code(true), f); }
constexpr double smallest_normal(const Format& f) noexcept {
  return f.is_integer() ? compose(false, 1, f.min_quantum_exponent()) : compose(false, 1, f.min_exponent());
}
// The smallest positive value; equal to smallest_normal where there are no subnormals.
constexpr double smallest_positive(const Format& f) noexcept {
  return f.has_subnormals() ? compose(false, 1, f.min_quantum_exponent()) : smallest_normal(f);
}
// Distance from 1 to the next value above: 2^-m, or the quantum of the subnormals where 1 is one of them.
constexpr double epsilon(const Format& f) noexcept {
  const int exponent = -f.mantissa_bits > f.min_quantum_exponent() ? -f.mantissa_bits : f.min_quantum_exponent();
  return compose(false, 1, exponent);
}

}  // namespace narrow
