#include "narrow/text/exact_number.hpp"
#include "narrow/text/exact_sum.hpp"

namespace narrow {
namespace {

BigUnsigned big(U128 x) {
  BigUnsigned high(static_cast<std::uint64_t>(x >> 64));
  return (high <<= 64) += BigUnsigned(static_cast<std::uint64_t>(x));
}

}  // namespace

void ExactSum::add(bool negative, U128 significand, int exponent) {
  ExactNumber x;
  x.negative = negative;
  x.significand = big(significand);
  x.power_of_two = exponent;
  add(x);
}

void ExactSum::add(Code code, const Format& f) { add(exact_number(code, f)); }

void ExactSum::add_product(Code a, const Format& fa, Code b, const Format& fb) {
  const Unpacked x = unpack(a, fa), y = unpack(b, fb);
  add(x.negative != y.negative, U128{x.significand} * y.significand, x.exponent + y.exponent);
}

void ExactSum::add(const ExactNumber& x, bool turned) {
  if (x.significand.is_zero()) return;
  if (x.power_of_two < lowest_) {
    plus_ <<= lowest_ - x.power_of_two;
    minus_ <<= lowest_ - x.power_of_two;
    lowest_ = x.power_of_two;
  }
  BigUnsigned shifted = x.significand;
  (x.negative != turned ? minus_ : plus_) += shifted <<= x.power_of_two - lowest_;
}

ExactNumber ExactSum::value() const {
  ExactNumber x;
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

ExactNumber exact_quanta(std::int64_t quanta, int exponent) {
  const auto magnitude = static_cast<std::uint64_t>(quanta);
  ExactSum sum;
  sum.add(quanta < 0, quanta < 0 ? 0 - magnitude : magnitude, exponent);
  return sum.value();
}

}  // namespace narrow
