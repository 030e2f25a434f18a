// A second oracle: MPFR rounds a double to a format with subnormals. Include only where MPFR was found.
#pragma once

#include <mpfr.h>

#include "narrow/round/cast.hpp"
#include "support/oracle/value.hpp"

namespace test {

class MpfrRounder {
 public:
  // Saturates: the rounding is MPFR's, what lies above the largest value is our own rule.
  MpfrRounder(const narrow::Format& f, double largest) : largest_(largest), min_exponent_(oracle::min_exponent(f)) {
    mpfr_init2(x_, 53);
    mpfr_init2(r_, f.mantissa_bits + 1);
    wide_emin_ = mpfr_get_emin();
  }
  MpfrRounder(const MpfrRounder&) = delete;
  MpfrRounder& operator=(const MpfrRounder&) = delete;
  ~MpfrRounder() {
    mpfr_clear(x_);
    mpfr_clear(r_);
  }

  // mpfr exponents are one more than ours (significands below 1), so the smallest subnormal 2^(emin - p + 1) has
  // mpfr exponent emin - p + 2; mpfr_subnormalize rounds again with the knowledge of the first rounding's direction.
  double round(double x, mpfr_rnd_t mode) {
    mpfr_set_d(x_, x, MPFR_RNDN);  // exact
    int ternary = mpfr_set(r_, x_, mode);
    mpfr_set_emin(min_exponent_ - static_cast<int>(mpfr_get_prec(r_)) + 2);
    ternary = mpfr_check_range(r_, ternary, mode);
    mpfr_subnormalize(r_, ternary, mode);
    const double result = mpfr_get_d(r_, MPFR_RNDN);  // exact
    mpfr_set_emin(wide_emin_);
    return std::min(std::max(result, -largest_), largest_);
  }

 private:
  double largest_;
  int min_exponent_;
  mpfr_exp_t wide_emin_;
  mpfr_t x_, r_;
};

}  // namespace test
