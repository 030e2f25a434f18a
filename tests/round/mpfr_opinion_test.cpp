// Does MPFR agree?
#include <doctest/doctest.h>

#include "support/opinions.hpp"
#include "support/scale.hpp"

#ifdef NARROW_TEST_MPFR
#include "support/mpfr_oracle.hpp"

using narrow::Rounding;

namespace {

struct MpfrMode {
  mpfr_rnd_t mpfr;
  Rounding rounding;
};
constexpr MpfrMode mpfr_modes[] = {{MPFR_RNDN, Rounding::nearest_even},
                          {MPFR_RNDZ, Rounding::toward_zero},
                          {MPFR_RNDU, Rounding::up},
                          {MPFR_RNDD, Rounding::down}};

}  // namespace

TEST_CASE("round: MPFR agrees in four mpfr_modes for every format with subnormals") {
  std::uint64_t count = 0;
  for (const test::Row& row : test::rows()) {
    const narrow::Format& f = row.format;
    if (!f.has_subnormals() || row.name == "tf32") continue;
    test::MpfrRounder mpfr(f, test::to_double(oracle::value_of(oracle::largest_code(false, f), f).magnitude));
    for (const MpfrMode& mode : mpfr_modes) {
      const narrow::Cast cast{.rounding = mode.rounding, .overflow = narrow::Overflow::saturate};
      test::Mismatches wrong;
      count += test::for_each_input<double>(f, test::scaled(1 << 14), [&](double x) {
        if (x != x) return;
        // Decoding is tested on its own, so equal doubles mean equal codes; fnuz formats have no -0.
        const double rounded = mpfr.round(x, mode.mpfr) + (f.has_negative_zero() ? -0.0 : 0.0);
        const double theirs = !f.has_sign && rounded < 0 ? 0 : rounded;  // saturated
        const double ours = narrow::round_to(x, f, cast);
        if (test::bits(theirs) != test::bits(ours))
          wrong.add([&] {
            return test::hex_float(x) + ": MPFR " + test::hex_float(theirs) + ", ours " + test::hex_float(ours);
          });
      });
      wrong.require_none(row.name + " " + test::name(mode.rounding));
    }
  }
  test::heard(std::string("MPFR ") + mpfr_get_version(), count);
}

#else

TEST_CASE("round: MPFR is not here") { test::not_heard("MPFR", "not found when this was configured"); }

#endif
