// How far a product is from the exact one, against rational arithmetic.
#include <doctest/doctest.h>

#include <cmath>

#include "dot/matrices.hpp"
#include "support/dot_oracle.hpp"

using narrow::Code;
using narrow::DotModel;
using oracle::Rational;
using test::Matrices;
using test::Matrix;

namespace {

// The exact value may be rounded to double before the difference is taken: 2^-53 of it, and as much again for the
// quotient. A bit lost is log2 of something above 2^-24, where that moves the logarithm by less than 2^-27.
constexpr double of_relative = 0x1p-51, of_bits = 0x1p-27;

double quotient(const Rational& x, const Rational& y) {  // |x / y| in double
  if (x.is_zero()) return 0;
  const Rational q = oracle::abs(x) / oracle::abs(y);
  // 80 bits of the quotient
  const int shift = 80 - (oracle::bits_of(q.num) - oracle::bits_of(q.den));
  const oracle::Integer bits = oracle::shifted(q.num, std::max(shift, 0)) / oracle::shifted(q.den, std::max(-shift, 0));
  return std::ldexp(static_cast<double>(bits), q.exp2 - shift);
}

Rational exact_value(const DotModel& m, const test::Problem& p, std::size_t i, std::size_t j, bool with_c) {
  Rational sum = with_c ? oracle::value_of(p.c[i * p.cols + j], m.accumulator.format).exact() : Rational{};
  for (std::size_t k = 0; k < p.k; ++k)
    sum = sum + oracle::value_of(p.row(i)[k], m.a.format).exact() * oracle::value_of(p.col(j)[k], m.b.format).exact();
  return sum;
}

}  // namespace

TEST_CASE("product_error: largest and mean relative error are those of rational arithmetic") {
  for (const char* name : {"hopper.mma.f32.f16.f16.k16", "hopper.wgmma.f32.e4m3.e4m3", "hopper.mma.f16.f16.f16.k16",
                           "ampere.mma.f32.tf32.tf32.k8"})
    for (const bool with_c : {false, true}) {
      const DotModel* m = narrow::find_dot_model(name);
      REQUIRE(m != nullptr);
      const test::Problem p = test::make_problem(*m, test::Family::near_one, 9, 14, 100, 3);
      const Matrices x(*m, p);
      const Matrix d = test::product(*m, {}, x, with_c);
      const narrow::Format& f = m->accumulator.format;
      double largest = 0, total = 0, bits = 0, most_bits = 0;
      std::size_t exact = 0, compared = 0, row = 0, col = 0;
      for (std::size_t i = 0; i < 9; ++i)
        for (std::size_t j = 0; j < 14; ++j) {
          const Rational want = exact_value(*m, p, i, j, with_c);
          exact += oracle::round_rational(want, false, f) == d.get(i, j) ? 1 : 0;
          const oracle::Value got = oracle::value_of(d.get(i, j), f);
          if (want.is_zero() || got.kind != oracle::Kind::finite) continue;
          ++compared;
          const double relative = quotient(got.exact() - want, want);
          const double lost = relative > 0 ? std::max(0.0, std::log2(relative / std::ldexp(1.0, -24))) : 0;
          if (relative > largest) largest = relative, row = i, col = j;
          total += relative, bits += lost, most_bits = std::max(most_bits, lost);
        }
      const narrow::ProductError e = narrow::product_error(*m, x.a.codes(), x.b.codes(),
                                                           with_c ? x.c.codes() : narrow::CodeMatrix{}, d.codes(), f);
      CAPTURE(std::string(name));
      CHECK(e.outputs == 9 * 14);
      CHECK(e.compared == compared);
      CHECK(e.exact == exact);
      CHECK(std::abs(e.max_relative - largest) <= of_relative);
      CHECK(std::abs(e.mean_relative - total / static_cast<double>(compared)) <= of_relative);
      CHECK(std::abs(e.max_bits_lost - most_bits) <= of_bits);
      CHECK(std::abs(e.mean_bits_lost - bits / static_cast<double>(compared)) <= of_bits);
      CHECK(e.worst_row == row);
      CHECK(e.worst_col == col);
      const narrow::ProductError some = narrow::product_error(
          *m, x.a.codes(), x.b.codes(), with_c ? x.c.codes() : narrow::CodeMatrix{}, d.codes(), f, 10);
      CHECK(some.compared <= 10);
      CHECK(some.compared > 0);
    }
}

TEST_CASE("product_error: the exact product has no error") {
  const DotModel* m = narrow::find_dot_model("hopper.mma.f64.f64.f64.k16");
  REQUIRE(m != nullptr);
  test::Problem p = test::make_problem(*m, test::Family::near_one, 4, 5, 20, 3);
  for (Code& x : p.a) x = std::bit_cast<Code>(static_cast<double>(static_cast<std::int64_t>(x % 1000)));
  for (Code& x : p.b) x = std::bit_cast<Code>(static_cast<double>(static_cast<std::int64_t>(x % 1000)) - 500);
  const Matrices x(*m, p);
  const Matrix d = test::product(*m, {}, x, false);
  const narrow::ProductError e =
      narrow::product_error(*m, x.a.codes(), x.b.codes(), {}, d.codes(), m->accumulator.format);
  CHECK(e.max_relative == 0);
  CHECK(e.mean_bits_lost == 0);
  CHECK(e.exact == e.outputs);
}
