// Can the oracle be trusted? Its parts were thought out separately: they must agree with each other and with known
// results.
#include "support/oracle.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "support/inputs.hpp"
#include "support/mismatches.hpp"
#include "support/oracle/intervals.hpp"
#include "support/rows.hpp"
#include "support/scale.hpp"

using narrow::Cast;
using narrow::Code;
using narrow::Rounding;
using oracle::Interval;

TEST_CASE("round: the oracle's intervals agree with its rounding at both ends") {
  for (const test::Row& row : test::small_rows()) {
    if (test::scale() < 1 && row.format.width() > 8) continue;
    for (const Rounding rounding : test::roundings) {
      if (rounding == Rounding::stochastic) continue;
      for (const bool negative : {false, true}) {
        const Cast cast{.rounding = rounding};
        test::Mismatches wrong;
        std::uint32_t next = 0;
        for (const Interval& i : oracle::intervals(row.format, cast, negative)) {
          if (i.first != next || i.last < i.first) wrong.add([&] { return "gap at " + test::hex(i.first); });
          next = i.last + 1;
          for (const std::uint32_t magnitude : {i.first, i.last}) {
            const auto x = test::from_bits<float>(magnitude | (negative ? 0x80000000u : 0u));
            const Code code = oracle::round(x, row.format, cast);
            if (code != i.code)
              wrong.add([&] { return test::hex_float(x) + " " + test::hex(code) + " not " + test::hex(i.code); });
          }
        }
        if (next != 0x80000000u) wrong.add([] { return "the last interval ends early"; });
        wrong.require_none(row.name + " " + test::name(rounding));
      }
    }
  }
}

TEST_CASE("round: the oracle gives textbook results") {
  const auto fp16 = narrow::find_format("fp16").value(), e4m3 = narrow::find_format("e4m3").value();
  CHECK(oracle::round(0.1, fp16) == 0x2E66);
  CHECK(oracle::round(65519.99, fp16) == 0x7BFF);
  CHECK(oracle::round(65520.0, fp16) == 0x7C00);
  CHECK(oracle::round(0x1p-25, fp16) == 0);
  CHECK(oracle::round(0x1.8p-24, fp16) == 2);
  CHECK(oracle::round(464.0, e4m3) == 0x7E);  // a tie between 448 and 480 goes to 448, which is even
  CHECK(oracle::round(465.0, e4m3) == 0x7F);
  CHECK(oracle::round(465.0, e4m3, {.overflow = narrow::Overflow::saturate}) == 0x7E);
  CHECK(oracle::round(-1e30, e4m3, {.rounding = Rounding::up}) == 0xFE);
}

TEST_CASE("round: the oracle's root agrees with the processor's") {
  const auto fp64 = narrow::find_format("fp64").value(), fp32 = narrow::find_format("fp32").value();
  for (std::uint64_t i = 0; i < test::scaled(20000); ++i) {
    const double x = std::fabs(test::spread<double>(i, fp64));
    if (std::isfinite(x)) CHECK(oracle::round_sqrt(oracle::from_double(x), false, fp64) == test::bits(std::sqrt(x)));
    const float y = std::fabs(test::spread<float>(i, fp32));
    if (std::isfinite(y)) CHECK(oracle::round_sqrt(oracle::from_double(y), false, fp32) == test::bits(std::sqrt(y)));
  }
}

TEST_CASE("round: the oracle's sums and quotients and fused products agree with the processor's") {
  const auto fp64 = narrow::find_format("fp64").value();
  test::Mismatches wrong;
  for (std::uint64_t i = 0; i < test::scaled(20000); ++i) {
    const double a = test::spread<double>(3 * i, fp64), b = test::spread<double>(3 * i + 1, fp64);
    const double c = test::spread<double>(3 * i + 2, fp64);
    if (!std::isfinite(a) || !std::isfinite(b) || !std::isfinite(c) || b == 0) continue;
    const oracle::Rational x = oracle::from_double(a), y = oracle::from_double(b), z = oracle::from_double(c);
    const auto expect = [&](const oracle::Rational& exact, double result, const char* what) {
      if (oracle::round_rational(exact, std::signbit(result), fp64) != test::bits(result))
        wrong.add([&] { return std::string(what) + " " + test::hex_float(a) + " " + test::hex_float(b); });
    };
    expect(x + y, a + b, "sum");
    expect(x - y, a - b, "difference");
    expect(x * y, a * b, "product");
    expect(x / y, a / b, "quotient");
    expect(x * y + z, std::fma(a, b, c), "fma");
  }
  wrong.require_none("fp64");
}
