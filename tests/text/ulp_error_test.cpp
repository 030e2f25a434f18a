#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "narrow/base/random.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/text/exact_number.hpp"
#include "support/scale.hpp"
#include "text/rational_oracle.hpp"

using namespace narrow;

namespace {

double error_in(std::string_view text, std::string_view format, const Cast& cast = {}) {
  const Format f = *find_format(format);
  const ExactNumber x = parse_number(text);
  return ulp_error(x, round_number(x, f, cast), f);
}

}  // namespace

TEST_CASE("text: the error in ulp is the rational difference over the quantum") {
  for (const std::string_view name : {"fp16", "e4m3", "bf16", "int8", "fp32"}) {
    const Format f = *find_format(name);
    CAPTURE(name);
    for (std::uint64_t i = 0; i < test::scaled(1500); ++i) {
      const std::uint64_t r = random_bits(50, i);
      const std::string power = std::to_string(static_cast<int>(i % 40) - 30);
      const std::string text = (r & 1 ? "-" : "") + std::to_string(r >> 20) + "e" + power;
      CAPTURE(text);
      const test::Rational x = test::read_decimal(text), size = abs(x);
      const Code code = random_bits(51, i) % f.max_magnitude();
      test::Rational quantum = test::scale_of(2, f.max_exponent() - f.mantissa_bits);
      if (f.is_integer()) quantum = 1;
      const test::Rational smallest = f.is_integer() ? quantum : test::magnitude_value(1, f);
      while (quantum > smallest && size < quantum * test::scale_of(2, f.mantissa_bits)) quantum /= 2;
      const test::Rational want = (test::magnitude_value(code, f) - x) / quantum;
      REQUIRE(ulp_error(parse_number(text), code, f) == want.convert_to<double>());
    }
  }
}

TEST_CASE("text: a representable input has no error and an input of Inf that stays Inf has none") {
  CHECK(error_in("0.5", "fp16") == 0);
  CHECK(error_in("-0", "fp16") == 0);
  CHECK(error_in("inf", "fp16") == 0);
  CHECK(error_in("-128", "int8") == 0);
}

TEST_CASE("text: the error in ulp has the sign of the result less the input") {
  CHECK(error_in("0.1", "fp16") == doctest::Approx(-0.4).epsilon(1e-12));
  CHECK(error_in("-0.1", "fp16") == doctest::Approx(0.4).epsilon(1e-12));
  CHECK(error_in("2.5", "int8") == -0.5);
  CHECK(error_in("1000", "int8") == -873);
  CHECK(error_in("65519", "fp16") == -15.0 / 32);
  CHECK(error_in("0", "e8m0") == 1);
  CHECK(error_in("1e-9", "fp16", {.rounding = Rounding::up}) > 0.98);
}

TEST_CASE("text: the error in ulp of Inf is infinite and of NaN is NaN") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  CHECK(error_in("70000", "fp16") == infinity);
  CHECK(error_in("-70000", "fp16") == -infinity);
  CHECK(error_in("inf", "fp16", {.overflow = Overflow::saturate}) == -infinity);
  CHECK(error_in("-inf", "fp16", {.overflow = Overflow::saturate}) == infinity);
  CHECK(std::isnan(error_in("nan", "fp16")));
  CHECK(std::isnan(error_in("500", "e4m3")));
  CHECK(error_in("1e99999", "e2m1") == -infinity);
}

TEST_CASE("text: an error too small for a double keeps its sign") {
  CHECK(error_in("1." + std::string(2000, '0') + "1", "fp16") < 0);
  CHECK(error_in("0." + std::string(2000, '9'), "fp16") > 0);
  CHECK(error_in("1e-9999", "fp16") < 0);
  CHECK(error_in("-1e-9999", "fp16") > 0);
  CHECK(error_in("1e-9999", "fp16", {.rounding = Rounding::up}) == 1);
}
