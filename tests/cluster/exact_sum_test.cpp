#include "narrow/cluster/exact_sum.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "narrow/base/random.hpp"
#include "narrow/format/find_format.hpp"

using narrow::operator""_fmt;
using narrow::cluster::ExactSum;

namespace {

double sum_of(const std::vector<float>& values, std::uint32_t divisor = 1) {
  ExactSum sum;
  for (const float x : values) sum.add(x);
  return narrow::decode(round_exact(sum.quotient(divisor), "fp64"_fmt), "fp64"_fmt);
}

}  // namespace

TEST_CASE("cluster: the exact sum holds floats of any size and sign at once") {
  constexpr float most = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::denorm_min();
  CHECK(sum_of({}) == 0);
  CHECK(sum_of({most, least, -most}) == 0x1p-149);
  CHECK(sum_of({-most, most, -least, -least}) == -0x1p-148);
  CHECK(sum_of({1, 0x1p-60f, -1, 0x1p100f, -0x1p100f}) == 0x1p-60);
  CHECK(sum_of(std::vector<float>(100000, most)) == 100000 * static_cast<double>(most));
  CHECK(sum_of(std::vector<float>(100000, -least)) == -100000 * static_cast<double>(least));
  CHECK(sum_of({1}, 3) == 1.0 / 3);
  CHECK(sum_of({-5, 0.5f}, 7) == -4.5 / 7);
  CHECK(sum_of({least}, 3) == 0x1p-149 / 3);
  CHECK(sum_of({most}, 4294967295u) == static_cast<double>(most) / 4294967295.0);
}

// Integers below 2^24 times a power of two: 64-bit integers know their sums, and long double their quotients by more
// than 53 bits, as double rounding cannot matter where a tie is impossible (odd divisors).
TEST_CASE("cluster: the exact sum is that of integers") {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    std::int64_t expected = 0;
    std::vector<float> values;
    for (std::uint64_t i = 0; i < 1 + seed % 50; ++i) {
      const auto x = static_cast<std::int64_t>(narrow::random_bits(seed, i) >> 40) - (1 << 23);
      values.push_back(std::ldexp(static_cast<float>(x), static_cast<int>(seed % 200) - 120));
      expected += x;
    }
    const double scale = std::ldexp(1.0, static_cast<int>(seed % 200) - 120);
    CHECK(sum_of(values) == static_cast<double>(expected) * scale);
    const auto divisor = static_cast<std::uint32_t>(1 + seed % 97);
    CHECK(sum_of(values, divisor) == static_cast<double>(expected) / divisor * scale);
  }
}

TEST_CASE("cluster: the exact sum rounds a tie by what lies far below it") {
  ExactSum above, below, tie;
  for (ExactSum* s : {&above, &below, &tie}) s->add(1), s->add(0x1p-8f);  // half way to the next bf16
  above.add(0x1p-149f), below.add(-0x1p-149f);
  const auto rounded = [](const ExactSum& s) {
    return narrow::decode(round_exact(s.quotient(), "bf16"_fmt), "bf16"_fmt);
  };
  CHECK(rounded(tie) == 1);
  CHECK(rounded(above) == 1.0078125);
  CHECK(rounded(below) == 1);
}

TEST_CASE("cluster: Inf and NaN of a sum are those of IEEE 754") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  ExactSum plus, minus, both, nan;
  plus.add(inf), minus.add(-inf), both.add(inf), both.add(-inf), nan.add(std::nanf(""));
  CHECK((!plus.is_finite() && !plus.is_nan() && !plus.is_minus_inf()));
  CHECK((!minus.is_finite() && !minus.is_nan() && minus.is_minus_inf()));
  CHECK((both.is_nan() && nan.is_nan() && !nan.is_finite()));
}
