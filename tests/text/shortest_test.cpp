#include <doctest/doctest.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <string>

#include "narrow/base/random.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/text/text.hpp"
#include "support/scale.hpp"
#include "text/rational_oracle.hpp"

using namespace narrow;

namespace {

// "-0.0125" and "-1.25e-2" both as "-125e-2": sign, digits without zeros around, exponent of the first digit.
std::string normalised(std::string text) {
  std::string sign;
  if (text[0] == '-') sign = "-", text.erase(0, 1);
  int exponent = 0;
  if (const auto e = text.find('e'); e != std::string::npos) exponent = std::stoi(text.substr(e + 1)), text.erase(e);
  const auto point = std::min(text.find('.'), text.size());
  if (point < text.size()) text.erase(point, 1);
  const auto first = text.find_first_not_of('0');
  text.erase(text.find_last_not_of('0') + 1);
  exponent += static_cast<int>(point) - 1 - static_cast<int>(first);
  return sign + text.substr(first) + "e" + std::to_string(exponent);
}

template <class T>
std::string shortest_of_library(T x) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, x, std::chars_format::scientific).ptr};
}

std::size_t digit_count(const std::string& text) {
  const std::string n = normalised(text);
  return n.find('e') - (n[0] == '-' ? 1 : 0);
}

}  // namespace

TEST_CASE("text: the shortest decimals of FP64 and FP32 are those of std::to_chars") {
  for (std::uint64_t i = 0; i < test::scaled(5000); ++i) {
    Code wide = random_bits(40, i);
    if (i % 4 == 0) wide = std::bit_cast<Code>(static_cast<double>(random_bits(41, i) % 100000) / 1000 + 1e-9);
    if (i % 16 == 1) wide &= 0xFFF0000000000000;  // powers of two: the interval is not symmetric
    const double x = std::bit_cast<double>(wide);
    if (std::isfinite(x) && x != 0)
      REQUIRE(normalised(to_shortest(wide, "fp64"_fmt)) == normalised(shortest_of_library(x)));
    const auto narrow_code = static_cast<std::uint32_t>(i % 16 == 2 ? wide & 0xFF800000 : wide);
    const float y = std::bit_cast<float>(narrow_code);
    if (std::isfinite(y) && y != 0)
      REQUIRE(normalised(to_shortest(narrow_code, "fp32"_fmt)) == normalised(shortest_of_library(y)));
  }
}

TEST_CASE("text: every code of up to 16 bits is read back from its shortest decimal") {
  for (const NamedFormat& row : format_table) {
    const Format& f = row.format;
    if (f.width() > 16) continue;
    CAPTURE(row.name);
    for (Code code = 0; code <= f.code_mask(); ++code) {
      const std::string text = to_shortest(code, f);
      CAPTURE(text);
      if (is_nan(code, f)) REQUIRE(text == "nan");
      else REQUIRE(parse_value(text, f) == code);
    }
  }
}

// All decimals of fewer digits are tried, not only the two around the value.
TEST_CASE("text: no decimal with fewer digits names the same code and none with as many is closer") {
  for (const std::string_view name : {"e4m3", "e5m2", "e4m3fnuz", "e2m1", "e3m4", "int8", "e2m3"}) {
    const Format f = *find_format(name);
    for (Code code = 1; code <= f.max_magnitude(); ++code) {
      const std::string text = to_shortest(code, f);
      CAPTURE(name);
      CAPTURE(text);
      const std::size_t digits = digit_count(text);
      const test::Rational value = test::magnitude_value(code, f);
      const test::Rational error = abs(test::Rational(test::read_decimal(text) - value));
      // Half a quantum up: where values saturate, more would still read as the largest.
      const test::Rational beyond = value + (test::magnitude_value(code + 1, f) - value) / 2;
      const auto last = static_cast<unsigned>(test::power(10, static_cast<int>(digits)));
      for (int exponent = -9; exponent <= 5; ++exponent) {
        for (unsigned n = 1; n < last; ++n) {
          const test::Rational candidate = test::Rational(n) * test::scale_of(10, exponent);
          if (candidate > beyond || 2 * candidate < value) continue;
          const std::string other = std::to_string(n) + "e" + std::to_string(exponent);
          if (parse_value(other, f) != code) continue;
          REQUIRE(digit_count(other) >= digits);
          REQUIRE(abs(test::Rational(candidate - value)) >= error);
        }
      }
    }
  }
}

TEST_CASE("text: shortest decimals are written as documented") {
  const Format fp64 = "fp64"_fmt, fp32 = "fp32"_fmt;
  CHECK(to_shortest(std::bit_cast<Code>(0.1), fp64) == "0.1");
  CHECK(to_shortest(std::bit_cast<Code>(-1e22), fp64) == "-1e+22");
  CHECK(to_shortest(std::bit_cast<Code>(1e-7), fp64) == "1e-07");
  CHECK(to_shortest(std::bit_cast<Code>(123456.0), fp64) == "123456");
  CHECK(to_shortest(1, fp64) == "5e-324");
  CHECK(to_shortest(1, fp32) == "1e-45");
  CHECK(to_shortest(0x7F7FFFFF, fp32) == "3.4028235e+38");
  CHECK(to_shortest(0x7BFF, "fp16"_fmt) == "65500");
  CHECK(to_shortest(0x7E, "e4m3"_fmt) == "450");
  CHECK(to_shortest(0x80, "int8"_fmt) == "-128");
  CHECK(to_shortest(0x8000, "fp16"_fmt) == "-0");
  CHECK(to_shortest(0x7C00, "fp16"_fmt) == "inf");
  CHECK(to_shortest(0x7C01, "fp16"_fmt) == "nan");
  CHECK(to_shortest(0, "e8m0"_fmt) == "6e-39");
}
