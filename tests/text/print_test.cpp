#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <string>

#include "narrow/base/random.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/text/text.hpp"
#include "support/scale.hpp"

using namespace narrow;

namespace {

// What printf says with more digits than any double has, without the zeros at the end.
std::string printed(const char* format, double x) {
  std::string text(2000, ' ');
  text.resize(static_cast<std::size_t>(std::snprintf(text.data(), text.size(), format, x)));
  const auto end = std::min(text.find('e'), text.size());
  std::string digits = text.substr(0, end);
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return digits + text.substr(end);
}

constexpr std::string_view more_formats[] = {"e1m2f", "e3m0f", "e2m1fn", "e5m7", "e6m9",
                                             "e8m1",  "e11m4", "e2m13",  "e1m0f"};

template <class Check>
void for_all_codes_up_to_16_bits(const Check& check) {
  for (const NamedFormat& row : format_table) {
    if (row.format.width() > 16) continue;
    CAPTURE(row.name);
    for (Code code = 0; code <= row.format.code_mask(); ++code) check(code, row.format);
  }
  for (const std::string_view name : more_formats) {
    const Format f = *find_format(name);
    CAPTURE(name);
    for (Code code = 0; code <= f.code_mask(); ++code) check(code, f);
  }
}

void require_read_back(const std::string& text, Code code, const Format& f) {
  CAPTURE(text);
  if (is_nan(code, f)) REQUIRE(text == "nan");
  else REQUIRE(parse_value(text, f) == code);
}

}  // namespace

TEST_CASE("text: every code of up to 16 bits is read back from its exact decimal") {
  for_all_codes_up_to_16_bits([](Code code, const Format& f) { require_read_back(to_decimal(code, f), code, f); });
}

TEST_CASE("text: every code of up to 16 bits is read back from its hex float") {
  for_all_codes_up_to_16_bits([](Code code, const Format& f) { require_read_back(to_hex_float(code, f), code, f); });
}

TEST_CASE("text: every code of up to 16 bits is read back from its digits") {
  for_all_codes_up_to_16_bits([](Code code, const Format& f) { REQUIRE(parse_code(to_hex_code(code, f), f) == code); });
}

TEST_CASE("text: exact decimals of doubles are what printf prints") {
  for (std::uint64_t i = 0; i < test::scaled(3000); ++i) {
    Code code = random_bits(30, i);
    if (i % 4 == 0) code &= 0x800FFFFFFFFFFFFF;                                                  // subnormal
    if (i % 4 == 1) code = (code & 0x801FFFFFFFFFFFFF) | ((0x390ull + code % 224) << 52);        // 2^-111 .. 2^112
    const double x = std::bit_cast<double>(code);
    if (!std::isfinite(x)) continue;
    CAPTURE(x);
    const std::string scientific = printed("%.1100e", x);
    const int exponent = std::stoi(scientific.substr(scientific.find('e') + 1));
    const bool plain = exponent >= -30 && exponent <= 30;
    REQUIRE(to_decimal(code, "fp64"_fmt) == (plain ? printed("%.1100f", x) : scientific));
  }
}

TEST_CASE("text: hex floats of normal doubles are what printf prints") {
  for (std::uint64_t i = 0; i < test::scaled(20000); ++i) {
    const Code code = random_bits(31, i) & ~(i % 5 == 0 ? 0xFFFFFFFFFull : 0ull);
    const double x = std::bit_cast<double>(code);
    if (!std::isnormal(x)) continue;
    char text[64];
    std::snprintf(text, sizeof text, "%a", x);
    REQUIRE(to_hex_float(code, "fp64"_fmt) == text);
  }
}

TEST_CASE("text: wide formats are read back from all spellings") {
  for (const std::string_view name : {"fp64", "fp32", "tf32"}) {
    const Format f = *find_format(name);
    CAPTURE(name);
    for (std::uint64_t i = 0; i < test::scaled(2000); ++i) {
      Code code = random_bits(32, i) & f.code_mask();
      if (i % 8 == 0) code &= f.mantissa_mask();
      require_read_back(to_decimal(code, f), code, f);
      require_read_back(to_hex_float(code, f), code, f);
      require_read_back(to_shortest(code, f), code, f);
    }
  }
}

TEST_CASE("text: values are written as documented") {
  const Format fp16 = "fp16"_fmt, fp32 = "fp32"_fmt, fp64 = "fp64"_fmt;
  CHECK(to_decimal(0x2E66, fp16) == "0.0999755859375");
  CHECK(to_hex_float(0x2E66, fp16) == "0x1.998p-4");
  CHECK(to_shortest(0x2E66, fp16) == "0.1");
  CHECK(to_decimal(0x0001, fp32) ==
        "1.40129846432481707092372958328991613128026194187651577175706828388979108268586060148663818836212158203125"
        "e-45");
  CHECK(to_decimal(0x7F7FFFFF, fp32) == "3.4028234663852885981170418348451692544e+38");
  CHECK(to_decimal(0x7BFF, fp16) == "65504");
  CHECK(to_decimal(0x5640, fp16) == "100");
  CHECK(to_decimal(0x80, "int8"_fmt) == "-128");
  CHECK(to_decimal(0x8000000000000000, fp64) == "-0");
  CHECK(to_decimal(0, fp64) == "0");
  CHECK(to_decimal(0xFC00, fp16) == "-inf");
  CHECK(to_decimal(0x7C00, fp16) == "inf");
  CHECK(to_decimal(0xFFFF, fp16) == "nan");
  CHECK(to_hex_float(0x0001, fp16) == "0x1p-24");
  CHECK(to_hex_float(0x8003, fp16) == "-0x1.8p-23");
  CHECK(to_hex_float(0x3C00, fp16) == "0x1p+0");
  CHECK(to_hex_float(0, fp16) == "0x0p+0");
  CHECK(to_hex_float(0x8000, fp16) == "-0x0p+0");
  CHECK(to_hex_float(0xFC00, fp16) == "-inf");
  CHECK(to_hex_float(0xFE00, fp16) == "nan");
  CHECK(to_hex_code(0x2E66, fp16) == "0x2E66");
  CHECK(to_hex_code(1, "tf32"_fmt) == "0x00001");
  CHECK(to_hex_code(0x1B, "e2m1"_fmt) == "0xB");
  CHECK(to_hex_code(~0ull, fp64) == "0xFFFFFFFFFFFFFFFF");
  CHECK(to_hex_code(7, "e2m3"_fmt) == "0x07");
}
