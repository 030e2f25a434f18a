#include <doctest/doctest.h>

#include "narrow/base/random.hpp"
#include "narrow/text/big_unsigned.hpp"
#include "narrow/text/exact_number.hpp"
#include "support/scale.hpp"
#include "text/rational_oracle.hpp"

using narrow::BigUnsigned;
using test::Integer;

namespace {

struct Pair {
  BigUnsigned big;
  Integer reference;
};

// Up to `limbs` random limbs, zeros and all ones among them.
Pair random_pair(std::uint64_t index, std::uint64_t limbs) {
  Pair p{BigUnsigned(), 0};
  const std::uint64_t count = narrow::random_bits(1, index) % (limbs + 1);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t bits = narrow::random_bits(2, index * 64 + i);
    std::uint32_t limb = static_cast<std::uint32_t>(bits);
    if (bits >> 62 == 0) limb = 0;
    if (bits >> 62 == 1) limb = ~0u;
    p.big <<= 32;
    p.big.multiply_add(1, limb);
    p.reference = (p.reference << 32) + limb;
  }
  return p;
}

}  // namespace

TEST_CASE("text: big integers add and subtract and multiply and divide as Boost does") {
  for (std::uint64_t i = 0; i < test::scaled(4000); ++i) {
    CAPTURE(i);
    const Pair a = random_pair(2 * i, 12), b = random_pair(2 * i + 1, 12);
    REQUIRE(a.big.to_digits() == a.reference.str());
    BigUnsigned sum = a.big;
    REQUIRE((sum += b.big).to_digits() == Integer(a.reference + b.reference).str());
    REQUIRE((sum -= a.big) == b.big);
    REQUIRE((a.big < b.big) == (a.reference < b.reference));
    REQUIRE((a.big == b.big) == (a.reference == b.reference));

    const auto small = static_cast<std::uint32_t>(narrow::random_bits(3, i)) | 1;
    BigUnsigned product = a.big;
    REQUIRE(product.multiply_add(small, 77).to_digits() == Integer(a.reference * small + 77).str());
    BigUnsigned quotient = a.big;
    REQUIRE(quotient.divide(small) == Integer(a.reference % small));
    REQUIRE(quotient.to_digits() == Integer(a.reference / small).str());
  }
}

TEST_CASE("text: big integers shift and are cut as Boost does") {
  for (std::uint64_t i = 0; i < test::scaled(4000); ++i) {
    const int n = static_cast<int>(narrow::random_bits(4, i) % 300);
    CAPTURE(i);
    CAPTURE(n);
    const Pair a = random_pair(i, 12);
    BigUnsigned shifted = a.big;
    REQUIRE((shifted <<= n).to_digits() == Integer(a.reference << n).str());
    REQUIRE(a.big.bit_length() == (a.reference == 0 ? 0 : static_cast<int>(msb(a.reference)) + 1));
    const Integer cut = a.reference >> n;
    const narrow::U128 bits = a.big.bits_from(n);
    const Integer got = (Integer(static_cast<std::uint64_t>(bits >> 64)) << 64) + static_cast<std::uint64_t>(bits);
    REQUIRE(got == cut % test::power(2, 128));
    REQUIRE(a.big.has_bits_below(n) == (cut << n != a.reference));
  }
}

TEST_CASE("text: powers of five are exact") {
  for (int n = 0; n < 1200; n += 7) REQUIRE(BigUnsigned(3).multiply_by_power_of_five(n).to_digits() ==
                                            Integer(3 * test::power(5, n)).str());
  CHECK(BigUnsigned(0).multiply_by_power_of_five(40).is_zero());
  CHECK(BigUnsigned(~0ull).to_digits() == "18446744073709551615");
}
