// What becomes of zero, of tiny and of negative values in a format that has neither zero nor sign (e8m0)?
#include <doctest/doctest.h>

#include "support/against_oracle.hpp"
#include "support/scale.hpp"

using narrow::Cast;
using narrow::Code;
using narrow::NearZero;
using narrow::operator""_fmt;
using narrow::Negative;
using narrow::Rounding;

namespace {

const narrow::Format e8m0 = narrow::find_format("e8m0").value();

// Every policy for zero and sign x every other policy.
std::vector<Cast> casts() {
  std::vector<Cast> list;
  for (const Cast& base : test::all_casts())
    for (const NearZero near_zero : {NearZero::by_value, NearZero::by_field, NearZero::by_field_no_zero})
      for (const Negative negative : {Negative::to_nan, Negative::to_magnitude}) {
        Cast cast = base;
        cast.near_zero = near_zero;
        cast.negative = negative;
        list.push_back(cast);
      }
  return list;
}

template <class T>
void compare_policies() {
  const test::Row row{"e8m0", e8m0};
  for (const Cast& cast : casts()) {
    std::vector<T> inputs = test::limits<T>();
    for (const Code m : {Code{0}, Code{1}, Code{2}, Code{127}, Code{253}, Code{254}})
      for (const T x : test::around<T>(m, e8m0)) inputs.push_back(x);
    for (std::uint64_t i = 0; i < test::scaled(500); ++i) inputs.push_back(test::spread<T>(i, e8m0));
    for (int exponent = -150; exponent < -124; ++exponent)
      for (const double mantissa : {1.0, 1.25, 1.5, 1.75}) {
        inputs.push_back(static_cast<T>(std::ldexp(mantissa, exponent)));
        inputs.push_back(static_cast<T>(-std::ldexp(mantissa, exponent)));
      }
    test::Mismatches wrong;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::uint64_t random = test::mix(i);
      const Code want = oracle::round(inputs[i], e8m0, cast, random),
                 got = narrow::encode(inputs[i], e8m0, cast, random);
      if (want != got) wrong.add([&] { return test::describe(inputs[i], row, cast, random, want, got); });
    }
    wrong.require_none("near_zero " + std::to_string(static_cast<int>(cast.near_zero)) + " negative " +
                       std::to_string(static_cast<int>(cast.negative)));
  }
}

Code of(float x, Rounding rounding, NearZero near_zero, Negative negative = Negative::to_nan) {
  return narrow::encode(x, e8m0, {.rounding = rounding, .negative = negative, .near_zero = near_zero});
}

}  // namespace

TEST_CASE("round: a format without zero and sign follows its policies from float") { compare_policies<float>(); }

TEST_CASE("round: a format without zero and sign follows its policies from double") { compare_policies<double>(); }

TEST_CASE("round: by value the smallest scale takes all that is below it") {
  for (const float x : {0.0f, -0.0f, 0x1p-149f, 0x1p-127f})
    CHECK(of(x, Rounding::nearest_even, NearZero::by_value) == 0);
  CHECK(of(0x1.7p-127f, Rounding::nearest_even, NearZero::by_value) == 0);
  CHECK(of(0x1.8p-127f, Rounding::nearest_even, NearZero::by_value) == 1);  // 1 is odd and 2 is even
  CHECK(of(0x1p-149f, Rounding::up, NearZero::by_value) == 0);
  CHECK(of(0x1.000004p-127f, Rounding::up, NearZero::by_value) == 1);
}

TEST_CASE("round: by field everything below the second scale is between zero and it") {
  CHECK(of(0x1p-127f, Rounding::nearest_even, NearZero::by_field) == 0);
  CHECK(of(0x1.00002p-127f, Rounding::nearest_even, NearZero::by_field) == 1);
  CHECK(of(0x1p-149f, Rounding::up, NearZero::by_field) == 1);
  CHECK(of(0.0f, Rounding::nearest_even, NearZero::by_field) == 0);
  CHECK(of(0.0f, Rounding::nearest_even, NearZero::by_field_no_zero) == 0xFF);
}

TEST_CASE("round: a negative scale is NaN or loses its sign") {
  CHECK(of(-1.0f, Rounding::nearest_even, NearZero::by_value) == 0xFF);
  CHECK(of(-1.0f, Rounding::nearest_even, NearZero::by_value, Negative::to_magnitude) == 127);
  CHECK(of(-HUGE_VALF, Rounding::nearest_even, NearZero::by_value) == 0xFF);
}

// The sign of a zero is all that this policy changes.
TEST_CASE("round: a zero without sign is the zero of every format in every mode") {
  for (const test::Row& row : test::rows())
    for (Cast cast : test::all_casts()) {
      cast.zero = narrow::Zero::positive;
      test::Mismatches wrong;
      std::vector<float> inputs = test::limits<float>();
      for (const Code m : {Code{0}, Code{1}, Code{2}})
        for (const float x : test::around<float>(m, row.format)) inputs.push_back(x);
      for (std::uint64_t i = 0; i < test::scaled(50); ++i) inputs.push_back(test::spread<float>(i, row.format));
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const std::uint64_t random = test::mix(i);
        const Code want = oracle::round(inputs[i], row.format, cast, random),
                   got = narrow::encode(inputs[i], row.format, cast, random);
        if (want != got) wrong.add([&] { return test::describe(inputs[i], row, cast, random, want, got); });
      }
      wrong.require_none(row.name);
    }
  constexpr narrow::Format e2m1 = "e2m1"_fmt;
  CHECK(narrow::encode(-0.1, e2m1) == 0x8);
  CHECK(narrow::encode(-0.1, e2m1, {.zero = narrow::Zero::positive}) == 0x0);
  CHECK(narrow::encode(-0.3, e2m1, {.zero = narrow::Zero::positive}) == 0x9);
}

// The implicit bit is the last one where there is no mantissa, and it is odd.
TEST_CASE("round: without mantissa bits a tie goes to the larger power of two and to odd stays at the smaller") {
  constexpr narrow::Format e3m0f = "e3m0f"_fmt;
  for (const double low : {0.25, 0.5, 1.0, 2.0, 4.0})
    for (const double sign : {1.0, -1.0}) {
      CHECK(narrow::round_to(sign * 1.5 * low, e3m0f) == sign * 2 * low);
      CHECK(narrow::round_to(sign * 1.5 * low, e3m0f, {.rounding = Rounding::to_odd}) == sign * low);
    }
  CHECK(narrow::round_to(0.0625, e3m0f) == 0.0);  // half of the smallest value: zero is even
}
