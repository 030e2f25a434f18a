// exp, log, tanh and erf: their errors in ulp against MPFR, their edges, and lanes against single values.
#include "narrow/train/operations/math.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "narrow/base/random.hpp"
#include "support/inputs.hpp"
#include "support/scale.hpp"

#ifdef NARROW_TEST_MPFR
#include <mpfr.h>
#endif

namespace narrow::train {

namespace {

double uniform(std::uint64_t i, double low, double high) {
  return low + (high - low) * (static_cast<double>(random_bits(11, i) >> 11) * 0x1p-53);
}

#ifdef NARROW_TEST_MPFR

using MpfrFunction = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);

class Reference {
 public:
  explicit Reference(MpfrFunction f) : f_(f) { mpfr_init2(x_, 53), mpfr_init2(y_, 160), mpfr_init2(q_, 160); }
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;
  ~Reference() { mpfr_clear(x_), mpfr_clear(y_), mpfr_clear(q_); }

  // |result - f(x)| in quanta of the carrier at f(x).
  template <class T>
  double error(T x, T result) {
    mpfr_set_d(x_, static_cast<double>(x), MPFR_RNDN);
    f_(y_, x_, MPFR_RNDN);
    constexpr int digits = std::numeric_limits<T>::digits, lowest = std::numeric_limits<T>::min_exponent - digits;
    const int exponent = mpfr_zero_p(y_) ? lowest : std::max(static_cast<int>(mpfr_get_exp(y_)) - digits, lowest);
    mpfr_sub_d(q_, y_, static_cast<double>(result), MPFR_RNDN);
    mpfr_mul_2si(q_, q_, -exponent, MPFR_RNDN);
    return std::abs(mpfr_get_d(q_, MPFR_RNDN));
  }

 private:
  MpfrFunction f_;
  mpfr_t x_, y_, q_;
};

template <class T, class F>
double worst_error(MpfrFunction reference, const F& f, double low, double high) {
  Reference exact(reference);
  double worst = 0;
  for (std::uint64_t i = 0; i < test::scaled(10000); ++i) {
    const T x = static_cast<T>(uniform(i, low, high));
    worst = std::max(worst, exact.error(x, f(x)));
  }
  return worst;
}

template <class T>
void check_bounds() {
  const auto e = [](T x) { return train::exp(x); };
  const auto l = [](T x) { return train::log(x); };
  const auto t = [](T x) { return train::tanh(x); };
  const auto g = [](T x) { return train::erf(x); };
  const double lowest = sizeof(T) == 4 ? -103 : -744, highest = sizeof(T) == 4 ? 88 : 709;
  CHECK(worst_error<T>(mpfr_exp, e, lowest, highest) <= 1.0);
  CHECK(worst_error<T>(mpfr_exp, e, -1, 1) <= 1.0);
  CHECK(worst_error<T>(mpfr_log, l, 0, 4) <= 1.0);
  CHECK(worst_error<T>(mpfr_log, l, 0, 1e30) <= 1.0);
  CHECK(worst_error<T>(mpfr_log, l, 0, static_cast<double>(std::numeric_limits<T>::min())) <= 1.0);
  CHECK(worst_error<T>(mpfr_tanh, t, -12, 12) <= 3.0);
  CHECK(worst_error<T>(mpfr_tanh, t, -0.5, 0.5) <= 3.0);
  CHECK(worst_error<T>(mpfr_erf, g, -7, 7) <= 1.5);
  CHECK(worst_error<T>(mpfr_erf, g, -1.5, 1.5) <= 1.5);
  CHECK(worst_error<T>(mpfr_erf, g, -1e-6, 1e-6) <= 1.5);
}

#endif

template <class T>
void check_edges() {
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  CHECK(train::exp(T{0}) == 1);
  CHECK(train::exp(inf) == inf);
  CHECK(train::exp(-inf) == 0);
  CHECK(std::isnan(train::exp(nan)));
  CHECK(train::log(T{1}) == 0);
  CHECK(train::log(T{0}) == -inf);
  CHECK(train::log(inf) == inf);
  CHECK(std::isnan(train::log(T{-1})));
  CHECK(std::isnan(train::log(nan)));
  for (const auto& f : {+[](T x) { return train::tanh(x); }, +[](T x) { return train::erf(x); }}) {
    CHECK(f(inf) == 1);
    CHECK(f(-inf) == -1);
    CHECK(std::isnan(f(nan)));
    CHECK(std::signbit(f(-T{0})));
    CHECK(f(T{0}) == 0);
  }
}

// A NaN's sign and payload are the machine's.
template <class T>
bool same(T a, T b) {
  return test::bits(a) == test::bits(b) || (std::isnan(a) && std::isnan(b));
}

template <class T>
void check_lanes() {
  for (std::uint64_t i = 0; i < 4000; i += lanes_of<T>) {
    T x[lanes_of<T>], y[3][lanes_of<T>];
    for (std::size_t j = 0; j < lanes_of<T>; ++j) x[j] = static_cast<T>(uniform(i + j, -120, 120));
    if (i % 8 == 0) x[0] = static_cast<T>(i) * std::numeric_limits<T>::infinity();
    store(y[0], train::exp(load(x))), store(y[1], train::tanh(load(x))), store(y[2], train::erf(load(x)));
    for (std::size_t j = 0; j < lanes_of<T>; ++j) {
      CHECK(same(y[0][j], train::exp(x[j])));
      CHECK(same(y[1][j], train::tanh(x[j])));
      CHECK(same(y[2][j], train::erf(x[j])));
    }
  }
}

}  // namespace

TEST_CASE("train: exp and log are within 1 ulp and erf within 1.5 and tanh within 3") {
#ifdef NARROW_TEST_MPFR
  check_bounds<float>();
  check_bounds<double>();
#else
  MESSAGE("MPFR is not here: not run");
#endif
}

TEST_CASE("train: exp and log and tanh and erf at zero and infinity and NaN") {
  check_edges<float>();
  check_edges<double>();
}

TEST_CASE("train: lanes give the bits of single values") {
  check_lanes<float>();
  check_lanes<double>();
}

}  // namespace narrow::train
