#include "products/exact_sum.hpp"

namespace app {
namespace {

narrow::BigUnsigned big(narrow::U128 x) {
  narrow::BigUnsigned high(static_cast<std::uint64_t>(x >> 64));
  return (high <<= 64) += narrow::BigUnsigned(static_cast<std::uint64_t>(x));
}

}  // namespace

void ExactSum::add(bool negative, narrow::U128 significand, int exponent) {
  narrow::ExactNumber x;
  x.negative = negative;
  x.significand = big(significand);
  x.power_of_two = exponent;
  add(x);
}

void ExactSum::add(narrow::Code code, const narrow::Format& f) { add(narrow::exact_number(code, f)); }

void ExactSum::add_product(narrow::Code a, const narrow::Format& fa, narrow::Code b, const narrow::Format& fb) {
  const narrow::Unpacked x = narrow::unpack(a, fa), y = narrow::unpack(b, fb);
  add(x.negative != y.negative, narrow::U128{x.significand} * y.significand, x.exponent + y.exponent);
}

void ExactSum::add(const narrow::ExactNumber& x, bool turned) {
  if (x.significand.is_zero()) return;
  if (x.power_of_two < lowest_) {
    plus_ <<= lowest_ - x.power_of_two;
    minus_ <<= lowest_ - x.power_of_two;
    lowest_ = x.power_of_two;
  }
  narrow::BigUnsigned shifted = x.significand;
  (x.negative != turned ? minus_ : plus_) += shifted <<= x.power_of_two - lowest_;
}

narrow::ExactNumber ExactSum::value() const {
  narrow::ExactNumber x;
  x.negative = minus_ > plus_;
  x.significand = x.negative ? minus_ : plus_;
  x.significand -= x.negative ? plus_ : minus_;
  x.power_of_two = lowest_;
  if (x.significand.is_zero()) return {};
  while (!x.significand.has_bits_below(1)) {
    x.significand.divide(2);
    ++x.power_of_two;
  }
  return x;
}

narrow::ExactNumber exact_quanta(std::int64_t quanta, int exponent) {
  const auto magnitude = static_cast<std::uint64_t>(quanta);
  ExactSum sum;
  sum.add(quanta < 0, quanta < 0 ? 0 - magnitude : magnitude, exponent);
  return sum.value();
}

}  // namespace app
