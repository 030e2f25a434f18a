// Second opinion: MPFR with the precision and the range of a format, in the modes that it has.
#include "arith/check.hpp"
#include "arith/operands.hpp"
#include "support/opinions.hpp"
#include "support/scale.hpp"

#ifdef NARROW_TEST_MPFR
#include <mpfr.h>

using namespace test;

namespace {

struct Big {
  mpfr_t x;
  explicit Big(int precision) { mpfr_init2(x, precision); }
  ~Big() { mpfr_clear(x); }
  Big(const Big&) = delete;
  Big& operator=(const Big&) = delete;
};

struct Mode {
  narrow::Rounding rounding;
  mpfr_rnd_t mpfr;
};
constexpr Mode modes[] = {{narrow::Rounding::nearest_even, MPFR_RNDN},
                          {narrow::Rounding::toward_zero, MPFR_RNDZ},
                          {narrow::Rounding::up, MPFR_RNDU},
                          {narrow::Rounding::down, MPFR_RNDD}};

int apply(Op op, Big& result, const Big& a, const Big& b, const Big& c, mpfr_rnd_t mode) {
  switch (op) {
    case Op::add: return mpfr_add(result.x, a.x, b.x, mode);
    case Op::sub: return mpfr_sub(result.x, a.x, b.x, mode);
    case Op::mul: return mpfr_mul(result.x, a.x, b.x, mode);
    case Op::div: return mpfr_div(result.x, a.x, b.x, mode);
    case Op::sqrt: return mpfr_sqrt(result.x, a.x, mode);
    case Op::fma: break;
  }
  return mpfr_fma(result.x, a.x, b.x, c.x, mode);
}

// MPFR's exponents count from 1/2: emin is one more than that of the smallest subnormal, emax than that of the largest.
void fit_range(Big& x, int ternary, const Format& f, mpfr_rnd_t mode) {
  const mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
  mpfr_set_emin(1 - f.bias - f.mantissa_bits + 1);
  mpfr_set_emax(f.bias + 1);
  ternary = mpfr_check_range(x.x, ternary, mode);
  mpfr_subnormalize(x.x, ternary, mode);
  mpfr_set_emin(emin);
  mpfr_set_emax(emax);
}

std::uint64_t check_against_mpfr(const Row& row) {
  const Format& f = row.format;
  const int precision = f.mantissa_bits + 1;
  Big a(precision), b(precision), c(precision), result(precision);
  const std::uint64_t count = scaled(1u << 15);
  Mismatches mismatches;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Triple t = hard_triple(i, f);
    const std::pair<Big*, Code> inputs[] = {{&a, t.a}, {&b, t.b}, {&c, t.c}};
    for (const auto& [big, code] : inputs) mpfr_set_d(big->x, narrow::decode(code, f), MPFR_RNDN);
    for (const Mode& mode : modes)
      for (const Op op : {Op::add, Op::sub, Op::mul, Op::div, Op::sqrt, Op::fma}) {
        fit_range(result, apply(op, result, a, b, c, mode.mpfr), f, mode.mpfr);
        const Cast cast{.rounding = mode.rounding};
        const Code got = computed(op, t.a, t.b, t.c, f, cast, 0),
                   want = oracle::round(mpfr_get_d(result.x, MPFR_RNDN), f);
        if (got != want) mismatches.add([&] { return describe({op, t.a, t.b, t.c}, row, cast, 0, got, want); });
      }
  }
  mismatches.require_none(row.name);
  return count;
}

}  // namespace

TEST_CASE("arith: MPFR gives the same bits for every IEEE-like format") {
  std::uint64_t count = 0;
  for (const Row& row : rows())
    if (row.format.specials == narrow::Specials::inf_and_nan) count += check_against_mpfr(row);
  heard(std::string("arithmetic of MPFR ") + mpfr_get_version(), count);
}

#else

TEST_CASE("arith: MPFR is not here") { test::not_heard("arithmetic of MPFR", "not found when this was configured"); }

#endif
