// Are the derived limits of formats what the standards print?
#include "narrow/format/format.hpp"

#include <doctest/doctest.h>

#include <climits>

#include "narrow/format/decode.hpp"
#include "narrow/format/find_format.hpp"
#include "support/oracle.hpp"
#include "support/rows.hpp"

using narrow::Code;
using narrow::Format;

namespace {

struct Limits {
  std::string_view name;
  int width;
  double largest, lowest, smallest_normal, smallest_positive, epsilon;
  Code max_code;
};

// OCP OFP8 1.0, OCP MX 1.0, IEEE 754-2019, ml_dtypes finfo.
constexpr Limits known[] = {
    {"fp64", 64, 0x1.fffffffffffffp1023, -0x1.fffffffffffffp1023, 0x1p-1022, 0x1p-1074, 0x1p-52, 0x7FEFFFFFFFFFFFFF},
    {"fp32", 32, 0x1.fffffep127, -0x1.fffffep127, 0x1p-126, 0x1p-149, 0x1p-23, 0x7F7FFFFF},
    {"tf32", 19, 0x1.ffcp127, -0x1.ffcp127, 0x1p-126, 0x1p-136, 0x1p-10, 0x3FBFF},
    {"fp16", 16, 65504, -65504, 0x1p-14, 0x1p-24, 0x1p-10, 0x7BFF},
    {"bf16", 16, 0x1.fep127, -0x1.fep127, 0x1p-126, 0x1p-133, 0x1p-7, 0x7F7F},
    {"e4m3", 8, 448, -448, 0x1p-6, 0x1p-9, 0.125, 0x7E},
    {"e5m2", 8, 57344, -57344, 0x1p-14, 0x1p-16, 0.25, 0x7B},
    {"e4m3fnuz", 8, 240, -240, 0x1p-7, 0x1p-10, 0.125, 0x7F},
    {"e5m2fnuz", 8, 57344, -57344, 0x1p-15, 0x1p-17, 0.25, 0x7F},
    {"e4m3b11fnuz", 8, 30, -30, 0x1p-10, 0x1p-13, 0.125, 0x7F},
    {"e4m3ieee", 8, 240, -240, 0x1p-6, 0x1p-9, 0.125, 0x77},
    {"e3m4", 8, 15.5, -15.5, 0.25, 0x1p-6, 0x1p-4, 0x6F},
    {"e2m3", 6, 7.5, -7.5, 1, 0.125, 0.125, 0x1F},
    {"e3m2", 6, 28, -28, 0.25, 0.0625, 0.25, 0x1F},
    {"e2m1", 4, 6, -6, 1, 0.5, 0.5, 0x7},
    {"e8m0", 8, 0x1p127, 0x1p-127, 0x1p-127, 0x1p-127, 1, 0xFE},
    {"int8", 8, 127, -128, 1, 1, 1, 0x7F},
    {"e3m0f", 4, 16, -16, 0.25, 0.25, 1, 0x7},
    {"e1m2f", 4, 3.5, -3.5, 2, 0.5, 0.5, 0x7},  // 1 is subnormal: the next value is 1.5
    {"e5m2fn", 8, 98304, -98304, 0x1p-14, 0x1p-16, 0.25, 0x7E},
};

}  // namespace

TEST_CASE("format: the limits of well-known formats are those of their standards") {
  for (const Limits& k : known) {
    CAPTURE(k.name);
    const Format f = narrow::find_format(k.name).value();
    CHECK(f.width() == k.width);
    CHECK(narrow::largest(f) == k.largest);
    CHECK(narrow::lowest(f) == k.lowest);
    CHECK(narrow::smallest_normal(f) == k.smallest_normal);
    CHECK(narrow::smallest_positive(f) == k.smallest_positive);
    CHECK(narrow::epsilon(f) == k.epsilon);
    CHECK(f.max_code() == k.max_code);
  }
}

TEST_CASE("format: 1.0 has the code that the field knows") {
  CHECK(narrow::decode(0x1FC00, narrow::find_format("tf32").value()) == 1.0);
  CHECK(narrow::decode(0x3C00, narrow::find_format("fp16").value()) == 1.0);
  CHECK(narrow::decode(0x3F80, narrow::find_format("bf16").value()) == 1.0);
  CHECK(narrow::decode(0x38, narrow::find_format("e4m3").value()) == 1.0);
  CHECK(narrow::decode(0x40, narrow::find_format("e4m3fnuz").value()) == 1.0);
  CHECK(narrow::decode(0x7F, narrow::find_format("e8m0").value()) == 1.0);
  CHECK(narrow::decode(0x01, narrow::find_format("int8").value()) == 1.0);
}

TEST_CASE("format: derived codes agree with the definition in every format") {
  for (const test::Row& row : test::rows()) {
    const Format& f = row.format;
    CAPTURE(row.name);
    CHECK(f.is_valid());
    CHECK(f.width() == oracle::width(f));
    CHECK(f.code_mask() == oracle::ones(oracle::width(f)));
    CHECK(f.sign_mask() == oracle::sign_bit(f));
    CHECK(f.min_exponent() == oracle::min_exponent(f));
    CHECK(f.has_negative_zero() == oracle::has_negative_zero(f));
    for (const bool negative : {false, true}) {
      CHECK(f.zero_code(negative) == oracle::zero_code(negative, f));
      if (negative && !f.has_sign) continue;
      CHECK(f.max_magnitude(negative) == oracle::largest_magnitude(f, negative));
      CHECK(f.max_code(negative) == oracle::largest_code(negative, f));
      if (f.has_infinity()) CHECK(f.infinity_code(negative) == oracle::special_code(negative, f));
      if (f.has_nan()) CHECK(f.nan_code(negative) == oracle::nan_code(negative, f));
    }
  }
}

TEST_CASE("format: the largest value is the largest among all codes") {
  for (const test::Row& row : test::small_rows()) {
    const Format& f = row.format;
    oracle::Rational largest, lowest = oracle::value_of(oracle::largest_code(f.has_sign, f), f).exact();
    for (Code c = 0; c <= f.code_mask(); ++c) {
      const oracle::Value v = oracle::value_of(c, f);
      if (v.kind != oracle::Kind::finite) continue;
      if (largest < v.exact()) largest = v.exact();
      if (f.has_sign && v.exact() < lowest) lowest = v.exact();
    }
    CHECK_MESSAGE(oracle::value_of(f.max_code(), f).exact() == largest, row.name);
    if (f.has_sign) CHECK_MESSAGE(oracle::value_of(f.max_code(true), f).exact() == lowest, row.name);
    CHECK_MESSAGE(!(oracle::value_of(f.max_code(), f).magnitude < oracle::power_of_two(f.max_exponent())), row.name);
    CHECK_MESSAGE(oracle::value_of(f.max_code(), f).magnitude < oracle::power_of_two(f.max_exponent() + 1), row.name);
  }
}

TEST_CASE("format: descriptions that make no sense are not valid") {
  CHECK_FALSE(Format{}.is_valid());
  CHECK_FALSE((Format{5, 0, 15, narrow::Specials::inf_and_nan}.is_valid()));
  CHECK_FALSE((Format{12, 3, 2047, narrow::Specials::inf_and_nan}.is_valid()));
  CHECK_FALSE((Format{4, 53, 7, narrow::Specials::inf_and_nan}.is_valid()));
  CHECK_FALSE((Format{11, 52, 1024, narrow::Specials::inf_and_nan}.is_valid()));
  CHECK_FALSE((Format{0, 7, -6, narrow::Specials::none}.is_valid()));
  CHECK_FALSE((Format{4, 3, 7, narrow::Specials::nan_is_negative_zero, false}.is_valid()));
  CHECK_FALSE((Format{-1, 3, 0, narrow::Specials::none}.is_valid()));
}

TEST_CASE("format: a bias at the ends of int is not valid, and asking does not overflow") {
  constexpr int ends[] = {INT_MIN, INT_MIN + 1, -100000, 100000, INT_MAX - 1, INT_MAX};
  for (const int bias : ends) {
    CHECK_FALSE((Format{5, 10, bias, narrow::Specials::inf_and_nan}.is_valid()));
    CHECK_FALSE((Format{8, 0, bias, narrow::Specials::nan_only, false, false}.is_valid()));
    CHECK_FALSE((Format{0, 7, bias, narrow::Specials::none, true, true, true}.is_valid()));
  }
  // The last ones that double holds: 2^1023 above, 2^-1074 below.
  CHECK((Format{1, 1, -1022, narrow::Specials::none}.is_valid()));
  CHECK_FALSE((Format{1, 1, -1023, narrow::Specials::none}.is_valid()));
  CHECK((Format{1, 1, 1074, narrow::Specials::none}.is_valid()));
  CHECK_FALSE((Format{1, 1, 1075, narrow::Specials::none}.is_valid()));
}
