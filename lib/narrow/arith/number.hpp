// Number<F>: a value of one format with operators; every operation rounds once, to nearest even.
//
//   using Half = Number<"fp16"_fmt>;
//   static_assert(Half(2048) + Half(1) == Half(2048));  // the last place of 2048 is 2
#pragma once

#include <concepts>
#include <functional>
#include <limits>
#include <type_traits>

#include "narrow/arith/arith.hpp"
#include "narrow/round/round_to.hpp"

namespace narrow {

// A value of the format F.
template <Format F>
class Number {
  static_assert(F.is_valid());

 public:
  using Storage = std::conditional_t<
      F.width() <= 8, std::uint8_t,
      std::conditional_t<F.width() <= 16, std::uint16_t, std::conditional_t<F.width() <= 32, std::uint32_t, std::uint64_t>>>;

  constexpr Number() = default;
  template <Carrier T>
  constexpr Number(T x) noexcept : code_(static_cast<Storage>(encode(x, F))) {}
  template <std::integral T>
  constexpr Number(T x) noexcept {
    const bool negative = std::is_signed_v<T> && x < T{0};
    const auto bits = static_cast<std::uint64_t>(x);
    code_ = static_cast<Storage>(round_exact({negative, negative ? 0 - bits : bits, 0, false}, F));
  }
  template <Format G>
    requires(G != F)
  constexpr explicit Number(Number<G> x) noexcept : code_(static_cast<Storage>(convert(x.code(), G, F))) {}

  static constexpr Number from_code(Code code) noexcept {
    Number n;
    n.code_ = static_cast<Storage>(code & F.code_mask());
    return n;
  }
  static constexpr Format format() noexcept { return F; }
  constexpr Code code() const noexcept { return code_; }

  constexpr explicit operator double() const noexcept { return decode(code_, F); }
  constexpr explicit operator float() const noexcept { return detail::in_carrier<float>(decode(code_, F)); }
  template <std::integral T>
  constexpr explicit operator T() const noexcept { return static_cast<T>(decode(code_, F)); }

  friend constexpr Number operator+(Number a, Number b) noexcept { return from_code(add(a.code_, b.code_, F)); }
  friend constexpr Number operator-(Number a, Number b) noexcept { return from_code(sub(a.code_, b.code_, F)); }
  friend constexpr Number operator*(Number a, Number b) noexcept { return from_code(mul(a.code_, b.code_, F)); }
  friend constexpr Number operator/(Number a, Number b) noexcept { return from_code(div(a.code_, b.code_, F)); }
  friend constexpr Number operator-(Number a) noexcept { return from_code(negate(a.code_, F)); }
  friend constexpr Number operator+(Number a) noexcept { return a; }
  constexpr Number& operator+=(Number b) noexcept { return *this = *this + b; }
  constexpr Number& operator-=(Number b) noexcept { return *this = *this - b; }
  constexpr Number& operator*=(Number b) noexcept { return *this = *this * b; }
  constexpr Number& operator/=(Number b) noexcept { return *this = *this / b; }

  friend constexpr bool operator==(Number a, Number b) noexcept {
    return compare(a.code_, b.code_, F) == std::partial_ordering::equivalent;
  }
  friend constexpr std::partial_ordering operator<=>(Number a, Number b) noexcept { return compare(a.code_, b.code_, F); }

  friend constexpr Number sqrt(Number a) noexcept { return from_code(narrow::sqrt(a.code_, F)); }
  friend constexpr Number fma(Number a, Number b, Number c) noexcept {
    return from_code(narrow::fma(a.code_, b.code_, c.code_, F));
  }
  friend constexpr Number abs(Number a) noexcept { return from_code(absolute(a.code_, F)); }
  friend constexpr Number fmin(Number a, Number b) noexcept { return from_code(minimum_number(a.code_, b.code_, F)); }
  friend constexpr Number fmax(Number a, Number b) noexcept { return from_code(maximum_number(a.code_, b.code_, F)); }
  friend constexpr bool isnan(Number a) noexcept { return is_nan(a.code_, F); }
  friend constexpr bool isinf(Number a) noexcept { return is_inf(a.code_, F); }
  friend constexpr bool isfinite(Number a) noexcept { return !is_nan(a.code_, F) && !is_inf(a.code_, F); }

 private:
  Storage code_ = 0;
};

}  // namespace narrow

// Limits, as for the built-in types.
template <narrow::Format F>
struct std::numeric_limits<narrow::Number<F>> {
 private:
  using N = narrow::Number<F>;

 public:
  static constexpr bool is_specialized = true;
  static constexpr bool is_signed = F.has_sign;
  static constexpr bool is_integer = F.is_integer();
  static constexpr bool is_exact = F.is_integer();
  static constexpr bool is_bounded = true;
  static constexpr bool is_modulo = false;
  static constexpr bool is_iec559 = F.specials == narrow::Specials::inf_and_nan;
  static constexpr bool has_infinity = F.has_infinity();
  static constexpr bool has_quiet_NaN = F.has_nan();
  static constexpr bool has_signaling_NaN = false;
  static constexpr bool traps = false;
  static constexpr bool tinyness_before = false;
  static constexpr std::float_round_style round_style = std::round_to_nearest;
  static constexpr int radix = 2;
  static constexpr int digits = F.is_integer() ? F.mantissa_bits : F.significand_bits();
  // Decimal digits that survive a trip through the format, and that tell all its values apart.
  static constexpr int digits10 = (F.is_integer() ? digits : digits - 1) * 30103 / 100000;
  static constexpr int max_digits10 = F.is_integer() ? 0 : 2 + digits * 30103 / 100000;
  static constexpr int min_exponent = F.is_integer() ? 0 : F.min_exponent() + 1;
  static constexpr int max_exponent = F.is_integer() ? 0 : F.max_exponent() + 1;
  static constexpr int min_exponent10 = F.is_integer() ? 0 : -static_cast<int>(-(F.min_exponent()) * 30103LL / 100000);
  static constexpr int max_exponent10 = [] {  // the largest k with 10^k <= max
    int k = 0;
    for (double power = 1; !F.is_integer() && power <= narrow::largest(F) / 10; power *= 10) ++k;
    return k;
  }();

  static constexpr N min() noexcept { return F.is_integer() ? lowest() : N(narrow::smallest_normal(F)); }
  static constexpr N max() noexcept { return N::from_code(F.max_code()); }
  static constexpr N lowest() noexcept { return N::from_code(F.max_code(true)); }
  static constexpr N epsilon() noexcept { return N(narrow::epsilon(F)); }
  static constexpr N round_error() noexcept { return N(0.5); }
  static constexpr N denorm_min() noexcept { return N(narrow::smallest_positive(F)); }
  static constexpr N infinity() noexcept { return N::from_code(F.has_infinity() ? F.infinity_code() : F.max_code()); }
  static constexpr N quiet_NaN() noexcept { return N::from_code(F.has_nan() ? F.nan_code() : 0); }
  static constexpr N signaling_NaN() noexcept { return quiet_NaN(); }
};

// Equal values have equal hashes: both zeros share one.
template <narrow::Format F>
struct std::hash<narrow::Number<F>> {
  std::size_t operator()(narrow::Number<F> x) const noexcept {
    const bool zero = narrow::classify(x.code(), F) == narrow::ValueClass::zero;
    return std::hash<narrow::Code>{}(zero ? 0 : x.code());
  }
};
