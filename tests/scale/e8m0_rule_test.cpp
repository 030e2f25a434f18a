#include "narrow/scale/e8m0_rule.hpp"

#include <doctest/doctest.h>

#include "block_oracle.hpp"
#include "support/inputs.hpp"
#include "support/mismatches.hpp"
#include "support/scale.hpp"

using narrow::e8m0_scale;
using narrow::ScaleRule;

using test::infinity;
using test::nan_value;

namespace {

constexpr ScaleRule rules[] = {ScaleRule::ocp_floor,    ScaleRule::cuda_round_up, ScaleRule::torchao_ceil,
                               ScaleRule::torchao_even, ScaleRule::torchao_rceil, ScaleRule::deepgemm,
                               ScaleRule::ct_mx};

std::vector<narrow::Format> mx_elements() {
  std::vector<narrow::Format> list;
  for (const narrow::BlockFormatRow& row : narrow::block_format_table())
    if (row.format.scale == narrow::find_format("e8m0")) list.push_back(row.format.element);
  list.push_back(narrow::find_block_format("bfp4x16")->element);
  return list;
}

void check_amax(test::Mismatches& wrong, float amax, const narrow::Format& element, ScaleRule rule) {
  const int expected = test::oracle_exponent(amax, false, element, rule) + 127;
  const int got = e8m0_scale(amax, element, rule);
  if (got != expected)
    wrong.add([&] {
      return std::string(narrow::row_of(rule).name) + " width " + std::to_string(element.width()) + " amax " +
             test::hex_float(static_cast<double>(amax)) + ": " + std::to_string(got) + ", expected " +
             std::to_string(expected);
    });
}

}  // namespace

// Every power of two from 2^-149 to 2^127 and 4 floats on each side of it, and the same around every power of two times
// the largest element (where the rules that divide by it change) and around the carry of torchao_even.
TEST_CASE("scale: every E8M0 rule is exact at and next to powers of two") {
  test::Mismatches wrong;
  for (const narrow::Format& element : mx_elements()) {
    const double top = test::to_double(test::largest_value(element));
    const double carry = 2 - std::ldexp(1.0, -element.mantissa_bits - 1), ct_carry = 1.75;
    for (const ScaleRule rule : rules)
      for (int e = -149; e <= 127; ++e)
        for (const double factor : {1.0, top / std::exp2(std::floor(std::log2(top))), carry, ct_carry}) {
          const double center = std::ldexp(factor, e);
          if (center > static_cast<double>(std::numeric_limits<float>::max())) continue;
          const std::uint32_t word = std::bit_cast<std::uint32_t>(static_cast<float>(center));
          for (std::uint32_t k = 0; k <= 8; ++k)
            if (word + k >= 4 && word + k - 4 < 0x7F800000u)
              check_amax(wrong, std::bit_cast<float>(word + k - 4), element, rule);
        }
  }
  wrong.require_none("E8M0 scales");
}

TEST_CASE("scale: every E8M0 rule is exact for spread magnitudes") {
  test::Mismatches wrong;
  const auto elements = mx_elements();
  for (std::uint64_t i = 0; i < test::scaled(3000); ++i) {
    const float amax = test::from_bits<float>(test::mix(i) >> 33);
    if (std::isfinite(amax))
      for (const ScaleRule rule : rules) check_amax(wrong, amax, elements[i % elements.size()], rule);
  }
  wrong.require_none("E8M0 scales");
}

TEST_CASE("scale: zero and Inf and NaN give the scale that each rule says") {
  const narrow::Format e4m3 = *narrow::find_format("e4m3");
  const auto code = [&](float amax, ScaleRule rule) { return static_cast<int>(e8m0_scale(amax, e4m3, rule)); };
  for (const ScaleRule rule :
       {ScaleRule::ocp_floor, ScaleRule::torchao_ceil, ScaleRule::torchao_even, ScaleRule::torchao_rceil}) {
    CHECK(code(0, rule) == 0);
    CHECK(code(infinity, rule) == 255);
    CHECK(code(nan_value, rule) == 255);
  }
  // TransformerEngine maps Inf to the largest scale, torchao to NaN: a real divergence.
  CHECK(code(0, ScaleRule::cuda_round_up) == 0);
  CHECK(code(infinity, ScaleRule::cuda_round_up) == 254);
  CHECK(code(nan_value, ScaleRule::cuda_round_up) == 255);
  CHECK(code(0, ScaleRule::deepgemm) == 105);  // 1e-4 / 448 rounded up is 2^-22
  CHECK(code(infinity, ScaleRule::deepgemm) == 254);
  CHECK(code(nan_value, ScaleRule::deepgemm) == 254);
  // Above 448 * 2^119.8 or so amax + half a last place is beyond the largest float.
  CHECK(code(std::numeric_limits<float>::max(), ScaleRule::torchao_even) == 255);
  CHECK(code(std::numeric_limits<float>::max(), ScaleRule::ocp_floor) == 246);
}

// OCP's floor saturates where the others do not: 127.9999 in E5M2 (scale 2^-9, 65535.9 is beyond 57344).
TEST_CASE("scale: ocp_floor lets the largest element saturate and round_up does not") {
  const narrow::Format e5m2 = *narrow::find_format("e5m2");
  CHECK(e8m0_scale(127.9999f, e5m2, ScaleRule::ocp_floor) == 127 - 9);
  CHECK(e8m0_scale(127.9999f, e5m2, ScaleRule::cuda_round_up) == 127 - 8);
  for (std::uint64_t i = 0; i < test::scaled(20000); ++i) {
    const float amax =
        std::ldexp(1 + static_cast<float>(test::mix(i) >> 41) * 0x1p-23f, static_cast<int>(test::mix(i) % 200) - 100);
    for (const narrow::Format& f : mx_elements()) {
      const double top = test::to_double(test::largest_value(f));
      const double floor = static_cast<double>(amax * narrow::e8m0_inverse(e8m0_scale(amax, f, ScaleRule::ocp_floor)));
      const double up = static_cast<double>(amax * narrow::e8m0_inverse(e8m0_scale(amax, f, ScaleRule::cuda_round_up)));
      REQUIRE(floor < std::exp2(std::floor(std::log2(top)) + 1));  // within the top binade, perhaps beyond the largest
      // amax * (1 / top) is rounded, and 1 / top too: a hair above the largest value may remain.
      REQUIRE(up <= top * (1 + 0x1p-22));
    }
  }
}

TEST_CASE("scale: E8M0 values and inverses are exact powers of two") {
  for (int code = 0; code < 255; ++code) {
    CHECK(static_cast<double>(narrow::e8m0_value(static_cast<std::uint8_t>(code))) == std::ldexp(1.0, code - 127));
    CHECK(static_cast<double>(narrow::e8m0_inverse(static_cast<std::uint8_t>(code))) == std::ldexp(1.0, 127 - code));
  }
  CHECK(std::isnan(narrow::e8m0_value(255)));
  CHECK(std::isnan(narrow::e8m0_inverse(255)));
}
