// Does every code decode to its exact value, and encode back to itself?
#include "narrow/format/decode.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "narrow/round/round_to.hpp"
#include "support/inputs.hpp"
#include "support/mismatches.hpp"
#include "support/rows.hpp"
#include "support/scale.hpp"

using narrow::Code;
using narrow::Format;
using narrow::ValueClass;

namespace {

// All codes of a small format; of a wide one the seams and a sample, with both signs, Inf and NaN.
std::vector<Code> codes(const Format& f) {
  std::vector<Code> list;
  if (f.width() <= 19) {
    for (Code c = 0; c <= f.code_mask(); ++c) list.push_back(c);
    return list;
  }
  for (const Code m : test::magnitudes(f, test::scaled(1 << 18))) {
    list.push_back(m);
    list.push_back(m | oracle::sign_bit(f));
  }
  for (const bool negative : {false, true})
    for (const Code extra : {0u, 1u, 2u, 3u}) list.push_back(oracle::special_code(negative, f) + extra);
  return list;
}

ValueClass class_of(const oracle::Value& v, const Format& f) {
  if (v.kind == oracle::Kind::nan) return ValueClass::nan;
  if (v.kind == oracle::Kind::inf) return ValueClass::inf;
  if (v.magnitude.is_zero()) return ValueClass::zero;
  const bool integer = f.exponent_bits == 0;
  return !integer && v.magnitude < oracle::power_of_two(oracle::min_exponent(f)) ? ValueClass::subnormal
                                                                                 : ValueClass::normal;
}

bool decodes_right(double x, const oracle::Value& v, const Format& f) {
  if (v.kind == oracle::Kind::nan) {
    const bool has_sign_of_nan =
        f.specials != narrow::Specials::nan_is_negative_zero && f.specials != narrow::Specials::extended;
    return std::isnan(x) && std::signbit(x) == (v.negative && has_sign_of_nan);
  }
  if (std::signbit(x) != v.negative) return false;  // also of a zero
  if (v.kind == oracle::Kind::inf) return std::isinf(x);
  return std::isfinite(x) && oracle::from_double(x) == v.exact();
}

}  // namespace

TEST_CASE("format: every code decodes to its exact value and class") {
  for (const test::Row& row : test::rows()) {
    test::Mismatches wrong;
    for (const Code c : codes(row.format)) {
      const oracle::Value v = oracle::value_of(c, row.format);
      const double x = narrow::decode(c, row.format);
      if (!decodes_right(x, v, row.format) || narrow::classify(c, row.format) != class_of(v, row.format))
        wrong.add([&] { return row.name + " " + test::hex(c) + " -> " + test::hex_float(x); });
      const narrow::Unpacked u = narrow::unpack(c, row.format);
      const bool is_nan = v.kind == oracle::Kind::nan, is_inf = v.kind == oracle::Kind::inf;
      if (u.is_nan() != is_nan || narrow::is_nan(c, row.format) != is_nan || u.is_inf() != is_inf ||
          narrow::is_inf(c, row.format) != is_inf || u.is_finite() != (v.kind == oracle::Kind::finite) ||
          u.is_zero() != (v.kind == oracle::Kind::finite && v.magnitude.is_zero()) || u.negative != v.negative)
        wrong.add([&] { return row.name + " class of " + test::hex(c); });
      const oracle::Rational unpacked{u.significand, 1, u.exponent};
      if (u.is_finite() && !(unpacked == v.magnitude)) wrong.add([&] { return row.name + " unpack " + test::hex(c); });
    }
    wrong.require_none(row.name);
  }
}

TEST_CASE("format: every code but NaN comes back from its value") {
  for (const test::Row& row : test::rows()) {
    test::Mismatches wrong;
    for (const Code c : codes(row.format)) {
      if (oracle::value_of(c, row.format).kind == oracle::Kind::nan) continue;
      const Code back = narrow::encode(narrow::decode(c, row.format), row.format);
      if (back != c) wrong.add([&] { return row.name + " " + test::hex(c) + " -> " + test::hex(back); });
    }
    wrong.require_none(row.name);
  }
}

TEST_CASE("format: a NaN decodes to a quiet NaN that keeps its payload left-aligned") {
  const Format fp16 = narrow::ieee(5, 10);
  CHECK(test::bits(narrow::decode(0x7C01, fp16)) == 0x7FF8040000000000u);
  CHECK(test::bits(narrow::decode(0xFE01, fp16)) == 0xFFF8040000000000u);
  CHECK(test::bits(narrow::decode(0x7FFF, fp16)) == 0x7FFFFC0000000000u);
}

TEST_CASE("format: compose gives doubles of every size") {
  CHECK(narrow::compose(false, 0, 17) == 0.0);
  CHECK(std::signbit(narrow::compose(true, 0, 0)));
  CHECK(narrow::compose(false, 1, -1074) == 0x1p-1074);
  CHECK(narrow::compose(true, 3, -1074) == -0x1.8p-1073);
  CHECK(narrow::compose(false, 0x1FFFFFFFFFFFFF, 971) == 0x1.fffffffffffffp1023);
  CHECK(narrow::compose(false, 1ull << 63, -63) == 1.0);
  CHECK(narrow::compose(false, (1ull << 52) - 1, -1074) == 0x0.fffffffffffffp-1022);
}

// The machine's own conversion in the default environment is the judge.
TEST_CASE("format: a double becomes the float that the machine makes of it") {
  std::vector<double> inputs = test::limits<double>();
  for (const std::uint64_t word : {0x7FF0000000000001u, 0xFFF8000000000000u, 0x7FFFFFFFFFFFFFFFu, 0x7FF8000020000000u})
    inputs.push_back(test::from_bits<double>(word));
  for (int exponent = -152; exponent <= 129; ++exponent)
    for (const double m :
         {1.0, 1.5, 1 + 0x1p-23, 1 + 0x1p-24, 1 + 0x1p-24 + 0x1p-52, 1 + 0x3p-24, 2 - 0x1p-24, 2 - 0x1p-52})
      inputs.push_back(std::ldexp(m, exponent));
  for (std::uint64_t i = 0; i < test::scaled(200000); ++i)
    inputs.push_back(test::spread<double>(i, narrow::ieee(8, 23)));
  test::Mismatches wrong;
  for (const double x : inputs)
    for (const double y : {x, -x}) {
      volatile double opaque = y;
      const auto want = static_cast<float>(opaque);
      const auto got = narrow::detail::in_carrier<float>(y);
      if (test::bits(want) != test::bits(got))
        wrong.add([&] { return test::hex_float(y) + ": " + test::hex(test::bits(got)); });
    }
  wrong.require_none("doubles as floats");
  static_assert(narrow::detail::in_carrier<float>(0x1.000001p0) == 1.0f);
}
