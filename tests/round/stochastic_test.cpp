// Is the probability of rounding up exactly what the definition says? Counted over all random values, not sampled.
#include <doctest/doctest.h>

#include <cmath>

#include "narrow/round/round_to.hpp"
#include "support/inputs.hpp"
#include "support/mismatches.hpp"
#include "support/rows.hpp"
#include "support/scale.hpp"

using narrow::Cast;
using narrow::Code;
using narrow::Format;
using narrow::Overflow;
using narrow::Rounding;

namespace {

constexpr int fraction_bits = 10;  // inputs lie at j / 2^10 of a quantum above a value

// x = value + j * 2^-10 quanta; with n random bits the magnitude goes up for floor(j * 2^n / 2^10) of the 2^n random
// values.
void check_counts(const test::Row& row, Code magnitude, bool negative, Code lower, Code upper,
                  test::Mismatches& wrong) {
  const Format& f = row.format;
  const double here = test::value(magnitude, f);
  const int log2 = here == 0 ? oracle::min_exponent(f) : std::ilogb(here);
  const double quantum = std::ldexp(1.0, oracle::quantum_exponent(log2, f));
  for (int n = 1; n <= 8; ++n)
    for (int j = 0; j < 1 << fraction_bits; j = j < 16 ? j + 1 : j + 37) {
      const double x = (here + quantum * std::ldexp(j, -fraction_bits)) * (negative ? -1 : 1);
      const Cast cast{.rounding = Rounding::stochastic, .random_bits = n};
      const int expected = j << n >> fraction_bits;
      int ups = 0, others = 0;
      for (std::uint64_t random = 0; random < 1u << n; ++random) {
        // Bits of the random argument above n must not count.
        const std::uint64_t noise = test::mix(random + static_cast<std::uint64_t>(j)) << n;
        const Code code = narrow::encode(x, f, cast, random | noise);
        ups += code == upper && upper != lower ? 1 : 0;
        others += code != upper && code != lower ? 1 : 0;
      }
      if ((upper != lower && ups != expected) || others != 0)
        wrong.add([&] {
          return row.name + " " + test::hex_float(x) + " n " + std::to_string(n) + ": " + std::to_string(ups) +
                 " ups, not " + std::to_string(expected);
        });
    }
}

// Every magnitude of a tiny format; of the others the lowest (subnormals and the seam), the highest and some between.
std::vector<Code> magnitudes(const Format& f) {
  const Code largest = oracle::largest_magnitude(f, false);
  std::vector<Code> list;
  for (Code m = 0; m <= largest; m += 1 + (m < 20 || largest - m < 4 ? 0 : largest / 16)) list.push_back(m);
  list.push_back(largest);
  const Code one = Code{1} << f.mantissa_bits;
  for (const Code m : {one - 1, one, 2 * one - 1, 2 * one})
    if (m <= largest) list.push_back(m);
  return list;
}

}  // namespace

TEST_CASE("round: stochastic probabilities are exact for one to eight random bits") {
  for (const test::Row& row : test::rows()) {
    const Format& f = row.format;
    if (f.mantissa_bits > 40) continue;  // a double has no room below the quantum
    test::Mismatches wrong;
    const Code largest = oracle::largest_magnitude(f, false);
    for (const Code m : magnitudes(f))
      for (const bool negative : {false, true}) {
        if (negative && !f.has_sign) continue;
        const Code lower = m == 0 ? oracle::zero_code(negative, f) : oracle::signed_code(m, negative, f);
        const bool at_end = m == largest && !(f.twos_complement && negative);
        // Beyond the largest value lies the special one, with the same probability.
        const Code upper = at_end ? oracle::special_code(negative, f) : oracle::signed_code(m + 1, negative, f);
        check_counts(row, m, negative, lower, upper, wrong);
      }
    wrong.require_none(row.name);
  }
}

TEST_CASE("round: stochastic rounding goes up from one random value on for any number of bits") {
  for (const char* name : {"fp16", "bf16", "e4m3", "e5m2", "e2m1", "e3m0f", "int8"}) {
    const Format f = narrow::find_format(name).value();
    const int q = oracle::quantum_exponent(0, f);
    for (const int n : {9, 16, 31, 32, 33, 48, 62, 63, 64})
      for (std::uint64_t i = 0; i < test::scaled(2000); ++i) {
        // rest = fraction * 2^-40 quanta: 1 + rest has at most 51 bits
        const std::uint64_t fraction = i == 0 ? 1 : i == 1 ? oracle::ones(40) : test::mix(i) >> 24;
        const double x = 1.0 + std::ldexp(static_cast<double>(fraction), q - 40);
        const std::uint64_t part = n >= 40 ? fraction << (n - 40) : fraction >> (40 - n);  // floor(rest * 2^n)
        const Cast cast{.rounding = Rounding::stochastic, .random_bits = n};
        const Code one = oracle::round(1.0, f);
        const std::uint64_t last_stay = oracle::ones(n) - part;  // 2^n - part - 1
        CHECK(narrow::encode(x, f, cast, last_stay) == one);
        CHECK(narrow::encode(x, f, cast, 0) == one);
        if (part != 0) CHECK(narrow::encode(x, f, cast, last_stay + 1) == one + 1);
        if (part != 0) CHECK(narrow::encode(x, f, cast, oracle::ones(n)) == one + 1);
      }
  }
}

TEST_CASE("round: stochastic rounding leaves representable values alone for every random value") {
  for (const test::Row& row : test::rows())
    for (const int n : {1, 8, 32, 64})
      for (const std::uint64_t random : {0ull, 1ull, ~0ull}) {
        const Cast cast{.rounding = Rounding::stochastic, .random_bits = n};
        const Code top = row.format.max_code();
        CHECK(narrow::encode(narrow::decode(top, row.format), row.format, cast, random) == top);
        CHECK(narrow::encode(narrow::decode(1, row.format), row.format, cast, random) == 1);
      }
}

TEST_CASE("round: stochastic rounding that saturates stays at the largest value") {
  const Format e4m3 = narrow::find_format("e4m3").value();
  for (std::uint64_t random = 0; random < 256; ++random) {
    const Cast cast{.rounding = Rounding::stochastic, .overflow = Overflow::saturate, .random_bits = 8};
    CHECK(narrow::encode(479.0f, e4m3, cast, random) == 0x7E);
    CHECK(narrow::encode(-479.0f, e4m3, cast, random) == 0xFE);
  }
}

// A shift by all 64 bits is undefined in C++: with no random bits nothing goes up, and more than 64 there are not.
TEST_CASE("round: no random bits never round up and more than 64 count as 64") {
  for (const char* name : {"fp16", "e4m3", "e2m1", "int8", "e8m0"}) {
    const Format f = narrow::find_format(name).value();
    for (const double x : {1.0, 1.26, 1.5, 1.99, 3.7})
      for (const std::uint64_t random : {std::uint64_t{0}, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
        const auto with = [&](int n) {
          return narrow::encode(x, f, {.rounding = Rounding::stochastic, .random_bits = n}, random);
        };
        CHECK(with(0) == narrow::encode(x, f, {.rounding = Rounding::toward_zero}));
        CHECK(with(-5) == with(0));
        CHECK(with(65) == with(64));
        CHECK(with(1000) == with(64));
      }
  }
}
