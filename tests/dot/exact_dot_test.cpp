// The exact sum rounded once, and the wide integer that it stands on.
#include <doctest/doctest.h>

#include "dot/problems.hpp"
#include "narrow/base/error.hpp"
#include "narrow/dot/dot.hpp"
#include "narrow/dot/wide_sum.hpp"
#include "support/dot_oracle.hpp"
#include "support/mismatches.hpp"
#include "support/scale.hpp"

using narrow::Code;
using narrow::DotModel;
using oracle::Integer;

TEST_CASE("dot: exact_dot rounds the exact sum once") {
  for (const DotModel* m : test::distinct_models()) {
    if (m->rule != narrow::DotRule::multiply_add && m->rule != narrow::DotRule::fused) continue;
    test::Mismatches wrong;
    for (const test::Family family : test::families)
      for (std::uint64_t n = 0; n < test::scaled(40, 4); ++n) {
        const auto p = test::make_problem(*m, family, 1, 1, 1 + n % 23, n);
        for (const auto& [f, cast] :
             {std::pair{m->accumulator.format, narrow::Cast{}},
              std::pair{m->accumulator.format, narrow::Cast{.rounding = narrow::Rounding::toward_zero}},
              std::pair{narrow::find_format("bf16").value(), narrow::Cast{}}}) {
          const Code c = f == m->accumulator.format ? p.c[0] : 0x3F80;
          const Code want = oracle::exact_dot(p.a, m->a.format, p.b, m->b.format, c, f, cast);
          const Code got = narrow::exact_dot(p.a, m->a.format, p.b, m->b.format, c, f, cast);
          if (want != got)
            wrong.add([&] {
              return std::string(test::name(family)) + " " + std::to_string(n) + ": " + test::hex(want) + ", here " +
                     test::hex(got);
            });
        }
      }
    wrong.require_none(std::string(m->name.view()));
  }
}

TEST_CASE("dot: exact_dot sees one part in 2^4000") {
  const narrow::Format f = narrow::find_format("fp64").value();
  const auto c = [](double x) { return std::bit_cast<Code>(x); };
  const double max = std::bit_cast<double>(0x7FEFFFFFFFFFFFFFull), least = std::bit_cast<double>(Code{1});
  const Code a[] = {c(max), c(-max), c(least)}, b[] = {c(max), c(max), c(least)};
  CHECK(narrow::exact_dot(a, f, b, f, c(1.5), f) == c(1.5));
  const narrow::Cast up{.rounding = narrow::Rounding::up};
  CHECK(narrow::exact_dot(a, f, b, f, c(1.5), f, up) == c(1.5) + 1);
  CHECK(narrow::exact_dot(a, f, b, f, 0, f) == 0);
  CHECK(narrow::exact_dot(a, f, b, f, 0, f, up) == 1);
  CHECK_THROWS_AS(narrow::exact_dot(std::span(a, 2), f, b, f, 0, f), narrow::Error);
}

TEST_CASE("dot: WideSum adds as unbounded integers do") {
  test::Mismatches wrong;
  for (std::uint64_t n = 0; n < test::scaled(2000, 50); ++n) {
    test::Dice dice(n);
    narrow::WideSum sum;
    Integer exact = 0;  // in units of 2^lowest
    const int low = narrow::WideSum::lowest, high = dice.one_in(2) ? 1920 : low + 200;
    narrow::U128 last = 0;
    int last_exponent = 0;
    bool last_negative = false;
    for (int i = dice.between(1, 40); i-- > 0;) {
      const bool negate_last = last != 0 && dice.one_in(4);
      const int width = dice.between(1, 106);
      const narrow::U128 m = negate_last ? last : (narrow::U128{dice.bits()} << 64 | dice.bits()) >> (128 - width);
      const int exponent = negate_last ? last_exponent : dice.between(low, high);
      const bool negative = negate_last ? !last_negative : dice.one_in(2);
      sum.add(negative, m, exponent);
      Integer term = (Integer(static_cast<std::uint64_t>(m >> 64)) << 64u) + static_cast<std::uint64_t>(m);
      term = oracle::shifted(term, exponent - low);
      exact += negative ? Integer(-term) : term;
      last = m, last_exponent = exponent, last_negative = negative;
    }
    const narrow::Exact got = sum.exact();
    // The top 128 bits of the magnitude, and whether anything is below.
    const Integer magnitude = exact < 0 ? Integer(-exact) : exact;
    const Integer found = (Integer(static_cast<std::uint64_t>(got.significand >> 64)) << 64u) +
                          static_cast<std::uint64_t>(got.significand);
    bool same = (exact == 0) == (got.significand == 0);
    if (exact != 0 && same) {
      const int place = got.exponent - low;
      const Integer kept =
          place >= 0 ? Integer(magnitude >> static_cast<unsigned>(place)) : oracle::shifted(magnitude, -place);
      const bool rest = place > 0 && oracle::shifted(kept, place) != magnitude;
      same = kept == found && rest == got.sticky && got.negative == (exact < 0) &&
             (place <= 0 || oracle::bits_of(found) >= 65);
    }
    if (!same || sum.is_negative() != (exact < 0)) wrong.add([&] { return "sum " + std::to_string(n); });
  }
  wrong.require_none("WideSum");
}
