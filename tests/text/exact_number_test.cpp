#include <doctest/doctest.h>

#include "narrow/base/random.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/text/exact_number.hpp"
#include "narrow/text/text.hpp"
#include "support/scale.hpp"
#include "text/rational_oracle.hpp"

using namespace narrow;
using test::Rational;

namespace {

constexpr Rounding every_rounding[] = {Rounding::nearest_even, Rounding::nearest_away, Rounding::nearest_to_zero,
                                       Rounding::toward_zero,  Rounding::up,           Rounding::down,
                                       Rounding::to_odd,       Rounding::stochastic};

void check_in_every_mode(const std::string& text, const Format& f, std::uint64_t index) {
  const bool negative = text[0] == '-';
  const test::Place place = test::find_place(test::read_decimal(text), f);
  for (const Rounding rounding : every_rounding) {
    const Cast cast{.rounding = rounding, .random_bits = 1 + static_cast<int>(index % 64)};
    const std::uint64_t random = random_bits(11, index);
    const std::uint64_t magnitude = test::round_magnitude(place, cast, random);
    if (magnitude > f.max_magnitude(negative)) continue;  // another test's business
    CAPTURE(text);
    CAPTURE(static_cast<int>(rounding));
    const Code want = magnitude == 0 ? f.zero_code(negative) : f.with_sign(magnitude, negative);
    REQUIRE(parse_value(text, f, cast, random) == want);
  }
}

constexpr std::string_view checked_formats[] = {"fp16", "e4m3", "e5m2fnuz", "e2m1", "bf16", "int8", "e3m1f", "fp64"};

}  // namespace

TEST_CASE("text: random decimals round once in every mode as the rational definition says") {
  for (const std::string_view name : checked_formats) {
    const Format f = *find_format(name);
    CAPTURE(name);
    for (std::uint64_t i = 0; i < test::scaled(400); ++i) {
      // A random value of the format times a factor near 1, so that every binade is met.
      const Code magnitude = random_bits(5, i) % (f.max_magnitude() + 1);
      const Rational factor(1000000 + static_cast<int>(random_bits(6, i) % 200000), 1100000);
      const Rational x = test::magnitude_value(magnitude, f) * factor;
      if (x > test::magnitude_value(f.max_magnitude(), f)) continue;
      const int digits = static_cast<int>(random_bits(7, i) % 60) + 1;
      const Rational scaled = x * test::scale_of(10, digits);
      const test::Integer cut = numerator(scaled) / denominator(scaled);
      check_in_every_mode((i % 2 ? "-" : "") + cut.str() + "e-" + std::to_string(digits), f, i);
    }
  }
}

// A reader that goes through double sees the midpoint itself and applies the tie rule: two roundings.
TEST_CASE("text: one digit far to the right of a midpoint decides") {
  for (const std::string_view name : checked_formats) {
    const Format f = *find_format(name);
    CAPTURE(name);
    for (std::uint64_t i = 0; i < test::scaled(40, 10); ++i) {
      const Code magnitude = i < 3 ? f.max_magnitude() - 1 - i : random_bits(8, i) % f.max_magnitude();
      const Rational midpoint = (test::magnitude_value(magnitude, f) + test::magnitude_value(magnitude + 1, f)) / 2;
      const std::string tie = test::write_decimal(midpoint);
      const std::string zeros(100 + i % 7 * 250, '0');
      check_in_every_mode(tie, f, i);
      check_in_every_mode(tie + zeros + "1", f, i);
      check_in_every_mode("-" + tie + zeros + "1", f, i);
      const Rational tiny = test::scale_of(10, -static_cast<int>(1300 + i));
      check_in_every_mode(test::write_decimal(midpoint - tiny), f, i);
    }
  }
}

TEST_CASE("text: values beyond the largest follow the overflow rule at the exact threshold") {
  const Format fp16 = "fp16"_fmt, e4m3 = "e4m3"_fmt, e2m1 = "e2m1"_fmt;
  const std::string zeros(2000, '0'), nines(2000, '9');
  CHECK(parse_value("65520", fp16) == 0x7C00);
  CHECK(parse_value("65519." + nines, fp16) == 0x7BFF);
  CHECK(parse_value("-65520", fp16) == 0xFC00);
  CHECK(parse_value("464", e4m3) == 0x7E);
  CHECK(parse_value("464." + zeros + "1", e4m3) == 0x7F);
  CHECK(parse_value("464." + zeros + "1", e4m3, {.overflow = Overflow::saturate}) == 0x7E);
  CHECK(parse_value("-1e400", e4m3) == 0xFF);
  CHECK(parse_value("1e999999999", e2m1) == 0x7);
  CHECK(parse_value("1e999999999", fp16, {.rounding = Rounding::toward_zero}) == 0x7BFF);
  CHECK(parse_value("1e-999999999", fp16, {.rounding = Rounding::up}) == 0x0001);
  CHECK(parse_value("-1e-999999999", fp16, {.rounding = Rounding::up}) == 0x8000);
  CHECK(parse_value("-0x1p-999999999", fp16, {.rounding = Rounding::down}) == 0x8001);
}

// The finest decision there is: the last of 64 random bits below the smallest quantum of FP64.
TEST_CASE("text: 64 random bits see the 64th bit below the smallest FP64 value and no further digit hides it") {
  const Format fp64 = "fp64"_fmt;
  const Cast cast{.rounding = Rounding::stochastic, .random_bits = 64};
  const Rational finest = test::scale_of(2, -1138);
  const std::string exact = test::write_decimal(finest);
  const std::string less = test::write_decimal(finest - test::scale_of(10, -4000));
  CHECK(parse_value(exact, fp64, cast, ~0ull) == 1);
  CHECK(parse_value(exact, fp64, cast, ~0ull - 1) == 0);
  CHECK(parse_value(less, fp64, cast, ~0ull) == 0);
  CHECK(parse_value("0x1p-1138", fp64, cast, ~0ull) == 1);
  CHECK(parse_value("0x0." + std::string(284, '0') + "3" + std::string(3000, 'f') + "p0", fp64, cast, ~0ull) == 0);
}

TEST_CASE("text: the specials go through the rules of the cast") {
  const Format fp16 = "fp16"_fmt;
  CHECK(parse_value("inf", fp16) == 0x7C00);
  CHECK(parse_value("-Infinity", fp16) == 0xFC00);
  CHECK(parse_value("inf", fp16, {.overflow = Overflow::saturate}) == 0x7BFF);
  CHECK(parse_value("NaN", fp16) == 0x7FFF);
  CHECK(parse_value("-nan", fp16) == 0x7FFF);
  CHECK(parse_value("-nan", fp16, {.nan = Nan::keep_sign}) == 0xFFFF);
  CHECK(parse_value("-nan", fp16, {.nan = Nan::keep_payload}) == 0xFE00);
  CHECK(parse_value("nan", "e2m1"_fmt) == 0x7);
  CHECK(parse_value("nan", "int8"_fmt) == 0);
  CHECK(parse_value("-1", "e8m0"_fmt) == 0xFF);
  CHECK(parse_value("-0", fp16) == 0x8000);
  CHECK(parse_value("-0", "e4m3fnuz"_fmt) == 0);
}

TEST_CASE("text: a cast through FP32 rounds twice and says so by its result") {
  // Just above the midpoint of 1 and 1 + 2^-10, by less than FP32 can hold.
  const std::string text = "1.00048828125000000001";
  CHECK(parse_value(text, "fp16"_fmt) == 0x3C01);
  CHECK(parse_value(text, "fp16"_fmt, {.through_fp32 = true}) == 0x3C00);
  CHECK(parse_value("1e39", "fp64"_fmt, {.through_fp32 = true}) == 0x7FF0000000000000);
  CHECK(parse_value("1e-40", "fp32"_fmt, {.subnormals = Subnormals::flush_inputs}) != 0);
  CHECK(parse_value("1e-40", "fp32"_fmt, {.subnormals = Subnormals::flush_inputs, .through_fp32 = true}) == 0);
  CHECK(parse_value("1e-40", "fp32"_fmt, {.subnormals = Subnormals::flush_results}) == 0);
}

TEST_CASE("text: numbers are compared by their exact values") {
  const auto order = [](std::string_view a, std::string_view b) { return compare(parse_number(a), parse_number(b)); };
  CHECK(order("0.1", "1e-1") == 0);
  CHECK(order("0.5", "0x1p-1") == 0);
  CHECK(order("-0", "0") == 0);
  CHECK(order("0.1", "0x1.999999999999ap-4") < 0);
  CHECK(order("0.1000000000000000055511151231257827021181583404541015625", "0x1.999999999999ap-4") == 0);
  CHECK(order("-0.1", "-0.2") > 0);
  CHECK(order("-1e-300", "1e-300") < 0);
  CHECK(order("inf", "1e999999") > 0);
  CHECK(order("-inf", "-1e999999") < 0);
  CHECK(order("inf", "infinity") == 0);
  CHECK(order("nan", "nan") == std::partial_ordering::unordered);
  CHECK(order("1e1999", "1e2000") < 0);
  CHECK(order("9.9e1999", "0x1p7000") < 0);
  CHECK(order("0x1p6643", "9.9e1999") < 0);
  CHECK(order("1e-1999", "1e-3000") > 0);
  CHECK(order("0x1p-6643", "0x1p-6650") > 0);
  CHECK(order("0", "1e-999999") < 0);
  const std::string nines(3000, '9');
  CHECK(order("0." + nines, "1") < 0);
  CHECK(order("1." + std::string(3000, '0') + "1", "1") > 0);
  for (const NamedFormat& row : format_table) {
    const Code code = row.format.max_code();
    CHECK(compare(exact_number(code, row.format), parse_number(test::write_decimal(Rational(
                                                      decode(code, row.format))))) == 0);
  }
}
