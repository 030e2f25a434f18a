#include <doctest/doctest.h>

#include <bit>
#include <cfenv>
#include <charconv>
#include <chrono>
#include <cstdlib>

#include "narrow/base/random.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/text/exact_number.hpp"
#include "narrow/text/text.hpp"
#include "support/scale.hpp"
#include "text/rational_oracle.hpp"
#include "support/contains.hpp"

using namespace narrow;

namespace {

std::string digits_of(std::uint64_t index, std::size_t count, unsigned base) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += "0123456789abcdef"[random_bits(index, i) % base];
  return text;
}

// One of four kinds: short, long, huge or tiny, and hexadecimal.
std::string random_text(std::uint64_t i) {
  const std::uint64_t r = random_bits(20, i);
  const std::string sign = r & 1 ? "-" : "";
  const std::size_t whole = 1 + (r >> 1) % 5, fraction = (r >> 8) % ((r >> 4) % 4 == 0 ? 60 : 14);
  const int exponent = static_cast<int>((r >> 16) % 700) - 360;
  if (i % 4 == 3) {
    const int power = static_cast<int>((r >> 16) % 2300) - 1170;
    return sign + "0x" + digits_of(i, whole, 16) + "." + digits_of(i + 1, fraction, 16) + "p" + std::to_string(power);
  }
  std::string text = sign + digits_of(i, whole, 10);
  if (fraction > 0) text += "." + digits_of(i + 1, fraction, 10);
  if (i % 4 == 1) text += "e" + std::to_string(exponent / 8);
  if (i % 4 == 2) text += "E" + std::to_string(exponent);
  return text;
}

void require_same_as_c(const std::string& text, const Cast& cast) {
  CAPTURE(text);
  REQUIRE(parse_value(text, "fp64"_fmt, cast) == std::bit_cast<std::uint64_t>(std::strtod(text.c_str(), nullptr)));
  REQUIRE(parse_value(text, "fp32"_fmt, cast) == std::bit_cast<std::uint32_t>(std::strtof(text.c_str(), nullptr)));
}

// Digits of the midpoint above a double or float, and of its two closest neighbours of the same length.
std::string midpoint_text(std::uint64_t i) {
  const bool wide = i % 2 == 0;
  const Format f = wide ? "fp64"_fmt : "fp32"_fmt;
  Code magnitude = random_bits(21, i) % f.max_magnitude();
  if (i % 16 < 2) magnitude >>= 12;  // subnormal
  const test::Rational middle = (test::magnitude_value(magnitude, f) + test::magnitude_value(magnitude + 1, f)) / 2;
  std::string text = test::write_decimal(middle);
  if (i % 3 == 1) text += std::string(i % 5, '0') + "1";
  if (i % 3 == 2) {
    if (text.back() == '.') text += "0";
    text = test::write_decimal(middle - test::scale_of(10, -static_cast<int>(text.size())));
  }
  return (i % 7 == 0 ? "-" : "") + text;
}

std::string number_error(std::string_view text) {
  return test::error_of([&] { parse_number(text); });
}

}  // namespace

TEST_CASE("text: FP64 and FP32 are read as the C library reads them") {
  for (std::uint64_t i = 0; i < test::scaled(120000); ++i) require_same_as_c(random_text(i), {});
}

TEST_CASE("text: FP64 is read as std::from_chars reads it") {
  for (std::uint64_t i = 0; i < test::scaled(20000); ++i) {
    const std::string text = random_text(4 * i + 2);
    double x = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), x);
    if (status != std::errc()) continue;  // overflow and underflow leave x alone
    CAPTURE(text);
    REQUIRE(parse_value(text, "fp64"_fmt) == std::bit_cast<std::uint64_t>(x));
  }
}

TEST_CASE("text: halfway cases of FP64 and FP32 are read as the C library reads them") {
  for (std::uint64_t i = 0; i < test::scaled(4000); ++i) require_same_as_c(midpoint_text(i), {});
}

TEST_CASE("text: directed modes read as the C library does under that rounding mode") {
  struct Mode {
    Rounding rounding;
    int c_mode;
  };
  for (const Mode mode : {Mode{Rounding::up, FE_UPWARD}, {Rounding::down, FE_DOWNWARD},
                          {Rounding::toward_zero, FE_TOWARDZERO}}) {
    for (std::uint64_t i = 0; i < test::scaled(12000); ++i) {
      const std::string text = i % 10 == 0 ? midpoint_text(i) : random_text(i);
      std::fesetround(mode.c_mode);
      const double wide = std::strtod(text.c_str(), nullptr);
      const float narrow_value = std::strtof(text.c_str(), nullptr);
      std::fesetround(FE_TONEAREST);
      CAPTURE(text);
      const Cast cast{.rounding = mode.rounding};
      REQUIRE(parse_value(text, "fp64"_fmt, cast) == std::bit_cast<std::uint64_t>(wide));
      REQUIRE(parse_value(text, "fp32"_fmt, cast) == std::bit_cast<std::uint32_t>(narrow_value));
    }
  }
}

TEST_CASE("text: every accepted spelling means what it says") {
  const auto equal = [](std::string_view text, double x) {
    CAPTURE(text);
    CHECK(parse_value(text, "fp64"_fmt) == std::bit_cast<std::uint64_t>(x));
  };
  equal("1.", 1);
  equal(".5", 0.5);
  equal("+2", 2);
  equal(" \t-1.5e0\r\n", -1.5);
  equal("1E+2", 100);
  equal("0x.8p1", 1);
  equal("0X1.8P-3", 0.1875);
  equal("0x1.8", 1.5);
  equal("0x1Fp0", 31);
  equal("-0x0p0", -0.0);
  equal("000000000.000e7", 0);
  equal("-.0", -0.0);
  equal("0e999999999999999999999999", 0);
}

TEST_CASE("text: what is no number is an error that shows the text and what is accepted") {
  const std::string accepted = " is not a number; accepted: decimals (0.1, -1e-7), hex floats (0x1.8p-3), inf, nan";
  for (const char* text : {"", ".", "-", "+-1", "--1", "1e", "1e+", "e5", "1_000", "1,5", "1 2", "1.2.3", "1f", "1p3",
                           "0x", "0x.p1", "0x1p", "0x1.g", "0x1_0p0", "0b1.1", "infinit", "nan(1)", "fp16"}) {
    CAPTURE(text);
    CHECK(number_error(text) == "'" + std::string(text) + "'" + accepted);
  }
  CHECK(number_error("  ") == "''" + accepted);
  CHECK(number_error(std::string("1\0", 2)) == "'1\\x00'" + accepted);
  CHECK(number_error("\xE2\x88\x92" "1") == "'\\xE2\\x88\\x921'" + accepted);
  CHECK(number_error(std::string(10000000, 'x')) == "'" + std::string(60, 'x') + "...'" + accepted);
  const std::string code = " is a code, not a number: a code needs its format (--from F, parse_code);"
                           " as a hex float it has a 'p' (0x1Fp0)";
  CHECK(number_error("0x1F") == "'0x1F'" + code);
  CHECK(number_error("-0x2e66") == "'-0x2e66'" + code);
}

TEST_CASE("text: hostile texts of ten million characters are read exactly and in time") {
  const auto start = std::chrono::steady_clock::now();
  const std::size_t many = 10000000;
  const std::string zeros(many, '0'), nines(many, '9');
  const auto equal = [](const std::string& text, double x) {
    CHECK(parse_value(text, "fp64"_fmt) == std::bit_cast<std::uint64_t>(x));
  };
  const double infinity = std::numeric_limits<double>::infinity();
  equal("1" + zeros + "e-10000000", 1);
  equal("0." + zeros + "1e10000001", 1);
  equal(zeros + "7" + zeros + "e-10000000", 7);
  equal(nines, infinity);
  equal("0." + nines, 1);
  equal(nines + "e-10000000", 1);
  equal("0x" + zeros + "1." + zeros + "1p0", 1);
  equal("0x1" + zeros + "p-40000000", 1);
  equal("0x0." + zeros + "8p40000001", 1);
  equal("1e" + nines, infinity);
  equal("-1e-" + nines, -0.0);
  equal("-0x1p" + nines, -infinity);
  equal("1e9223372036854775808", infinity);
  equal("0.000001e-9223372036854775808", 0);
  equal("0x1p-2147483649", 0);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  CHECK(seconds.count() < 10 * test::patience);  // linear: about a second in all; quadratic would be hours
}
