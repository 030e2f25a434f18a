// numeric_limits of every row: against the values of the oracle, and for fp32 and fp64 against the compiler's own.
#include <limits>
#include <utility>

#include "arith/expected.hpp"
#include "narrow/arith/number.hpp"
#include "support/inputs.hpp"
#include "support/mismatches.hpp"

using namespace test;
using narrow::Number;
using narrow::operator""_fmt;

namespace {

Rational power_of_ten(int n) {
  Rational x{1};
  for (int i = 0; i < std::abs(n); ++i) x = n > 0 ? x * Rational{10} : x / Rational{10};
  return x;
}
Rational value_in(Code code, const Format& f) { return oracle::value_of(code, f).exact(); }

// The standard's definitions: powers of ten and of two inside the range of the normal values.
template <Format F>
void check_range() {
  using L = std::numeric_limits<Number<F>>;
  const Rational largest = value_in(oracle::largest_code(false, F), F);
  const Rational smallest = oracle::power_of_two(oracle::min_exponent(F));
  CHECK_FALSE(largest < power_of_ten(L::max_exponent10));
  CHECK(largest < power_of_ten(L::max_exponent10 + 1));
  CHECK_FALSE(power_of_ten(L::min_exponent10) < smallest);
  CHECK(power_of_ten(L::min_exponent10 - 1) < smallest);
  CHECK_FALSE(largest < oracle::power_of_two(L::max_exponent - 1));
  CHECK(largest < oracle::power_of_two(L::max_exponent));
  CHECK(oracle::power_of_two(L::min_exponent - 1) == smallest);
  // digits10: that many decimal digits survive; max_digits10: that many tell neighbours apart.
  CHECK_FALSE(oracle::power_of_two(L::digits - 1) < power_of_ten(L::digits10));
  CHECK(oracle::power_of_two(L::digits - 1) < power_of_ten(L::digits10 + 1));
  CHECK(oracle::power_of_two(L::digits) < power_of_ten(L::max_digits10 - 1));
  CHECK_FALSE(oracle::power_of_two(L::digits) < power_of_ten(L::max_digits10 - 2));
}

template <Format F>
void check_values() {
  using L = std::numeric_limits<Number<F>>;
  CHECK(L::digits == F.mantissa_bits + 1);
  CHECK(value_in(L::min().code(), F) == oracle::power_of_two(oracle::min_exponent(F)));
  CHECK(value_in(L::epsilon().code(), F) == oracle::power_of_two(-F.mantissa_bits));
  const int denorm = oracle::min_exponent(F) - (F.has_zero ? F.mantissa_bits : 0);
  CHECK(value_in(L::denorm_min().code(), F) == oracle::power_of_two(denorm));
}

template <std::size_t I>
void check_row() {
  constexpr Format f = narrow::format_table[I].format;
  using L = std::numeric_limits<Number<f>>;
  CAPTURE(narrow::format_table[I].name);
  CHECK(L::is_specialized);
  CHECK(L::radix == 2);
  CHECK(L::is_integer == (f.exponent_bits == 0));
  CHECK(L::is_signed == f.has_sign);
  CHECK(L::max().code() == oracle::largest_code(false, f));
  CHECK(L::lowest().code() == (f.has_sign ? oracle::largest_code(true, f) : 0));
  CHECK(L::has_infinity == (oracle::value_of(L::infinity().code(), f).kind == Kind::inf));
  CHECK(L::has_quiet_NaN == (oracle::value_of(L::quiet_NaN().code(), f).kind == Kind::nan));
  if constexpr (f.exponent_bits != 0) {
    check_range<f>();
    check_values<f>();
  }
}

template <std::size_t... I>
void check_rows(std::index_sequence<I...>) {
  (check_row<I>(), ...);
}

template <Format F, class T>
void check_like() {
  using L = std::numeric_limits<Number<F>>;
  using S = std::numeric_limits<T>;
  CHECK(L::digits == S::digits);
  CHECK(L::digits10 == S::digits10);
  CHECK(L::max_digits10 == S::max_digits10);
  CHECK(L::min_exponent == S::min_exponent);
  CHECK(L::max_exponent == S::max_exponent);
  CHECK(L::min_exponent10 == S::min_exponent10);
  CHECK(L::max_exponent10 == S::max_exponent10);
  CHECK(L::is_iec559 == S::is_iec559);
  CHECK(L::min().code() == bits(S::min()));
  CHECK(L::max().code() == bits(S::max()));
  CHECK(L::lowest().code() == bits(S::lowest()));
  CHECK(L::epsilon().code() == bits(S::epsilon()));
  CHECK(L::round_error().code() == bits(S::round_error()));
  CHECK(L::denorm_min().code() == bits(S::denorm_min()));
  CHECK(L::infinity().code() == bits(S::infinity()));
}

}  // namespace

TEST_CASE("arith: the limits of every format follow from its values") {
  check_rows(std::make_index_sequence<std::size(narrow::format_table)>{});
}

TEST_CASE("arith: fp32 and fp64 have the limits of float and double") {
  check_like<"fp32"_fmt, float>();
  check_like<"fp64"_fmt, double>();
}

TEST_CASE("arith: int8 has the limits of a signed char") {
  using L = std::numeric_limits<Number<"int8"_fmt>>;
  using S = std::numeric_limits<signed char>;
  CHECK(static_cast<int>(L::min()) == S::min());
  CHECK(static_cast<int>(L::max()) == S::max());
  CHECK(static_cast<int>(L::lowest()) == S::lowest());
  CHECK(L::digits == S::digits);
  CHECK(L::digits10 == S::digits10);
  CHECK(L::max_digits10 == S::max_digits10);
}
