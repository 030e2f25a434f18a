// Are exact results of more bits than any carrier has rounded right, also when something unknown lies below them?
#include "narrow/round/round_exact.hpp"

#include <doctest/doctest.h>

#include "support/against_oracle.hpp"
#include "support/scale.hpp"

using narrow::Cast;
using narrow::Code;
using narrow::Exact;
using narrow::Rounding;

namespace {

oracle::Rational value(const Exact& x, const oracle::Rational& tail) {
  const oracle::Integer significand = (oracle::Integer(static_cast<std::uint64_t>(x.significand >> 64)) << 64u) +
                                      static_cast<std::uint64_t>(x.significand);
  const oracle::Rational magnitude = (oracle::Rational{significand} + tail) * oracle::power_of_two(x.exponent);
  return x.negative ? -magnitude : magnitude;
}

// 128 bits with the top one set: a pattern of the format's length (a value or a middle), then nothing, ones or
// anything.
Exact pattern(std::uint64_t index, const narrow::Format& f) {
  const std::uint64_t r = test::mix(index), s = test::mix(r), t = test::mix(s);
  const int kept = f.mantissa_bits + 1 + static_cast<int>(t % 3);  // up to the last kept bit, the half, the quarter
  const oracle::Wide random = static_cast<oracle::Wide>(r) << 64 | s;
  const oracle::Wide below = ~oracle::Wide{0} >> kept;
  oracle::Wide significand = random & ~below;
  if (t >> 8 & 1) significand |= t >> 9 & 1 ? below : t >> 10 & 1 ? oracle::Wide{1} << (t >> 11 & 63) : random & below;
  significand |= oracle::Wide{1} << 127;
  const int top =
      f.twos_complement ? 8 : static_cast<int>(oracle::largest_magnitude(f, false) >> f.mantissa_bits) - f.bias;
  const int low = oracle::min_exponent(f) - f.mantissa_bits - 3;
  const int binade = low + static_cast<int>((t >> 20) % static_cast<std::uint64_t>(top + 3 - low));
  return {(t >> 63) != 0, significand, binade - 127, (t >> 62 & 1) != 0};
}

std::string describe(const Exact& x, std::uint64_t index) {
  return "pattern " + std::to_string(index) + ": " + test::hex(static_cast<std::uint64_t>(x.significand >> 64)) + " " +
         test::hex(static_cast<std::uint64_t>(x.significand)) + " exponent " + std::to_string(x.exponent);
}

}  // namespace

TEST_CASE("round: exact results of 128 bits go where the definition says whatever lies below them") {
  for (const test::Row& row : test::rows()) {
    test::Mismatches wrong;
    narrow::parallel_parts(test::scaled(1 << 15), 256, 0, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const Exact x = pattern(i, row.format);
        // The tail is unknown: the smallest and the largest must both be served by one answer.
        const oracle::Rational tails[] = {{0}, oracle::power_of_two(-200), {(oracle::Integer(1) << 200u) - 1, 1, -200}};
        for (const oracle::Rational& tail : tails) {
          if (x.sticky == tail.is_zero()) continue;
          const oracle::Split s = oracle::split(value(x, tail), x.negative, row.format);
          for (const Cast& cast : test::all_casts()) {
            const Code want = oracle::finish(s, row.format, cast, test::mix(i));
            const Code got = narrow::round_exact(x, row.format, cast, test::mix(i));
            if (want != got)
              wrong.add([&] {
                return test::describe(cast) + " " + describe(x, i) + ": " + test::hex(want) + " not " + test::hex(got);
              });
          }
        }
      }
    });
    wrong.require_none(row.name);
  }
}

TEST_CASE("round: something below a middle makes it more than a middle") {
  const narrow::Format fp16 = narrow::find_format("fp16").value();
  const oracle::Wide middle = (oracle::Wide{1} << 127) + (oracle::Wide{1} << 116);  // 1 + 2^-11
  CHECK(narrow::round_exact({false, middle, -127, false}, fp16) == 0x3C00);
  CHECK(narrow::round_exact({false, middle, -127, true}, fp16) == 0x3C01);
  CHECK(narrow::round_exact({false, middle + 1, -127, false}, fp16) == 0x3C01);
  CHECK(narrow::round_exact({false, middle, -127, true}, fp16, {.rounding = Rounding::nearest_to_zero}) == 0x3C01);
}

TEST_CASE("round: a tiny exact result is no zero for the mode that moves away from zero") {
  const narrow::Format fp16 = narrow::find_format("fp16").value();
  CHECK(narrow::round_exact({true, 0, -300, false}, fp16, {.rounding = Rounding::down}) == 0x8000);
  CHECK(narrow::round_exact({false, oracle::Wide{1} << 127, -600, false}, fp16, {.rounding = Rounding::up}) == 1);
  CHECK(narrow::round_exact({true, oracle::Wide{1} << 127, -600, true}, fp16, {.rounding = Rounding::down}) == 0x8001);
}
