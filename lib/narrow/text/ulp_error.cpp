// How far a result is from its exact input, in units of the last place.
#include <algorithm>
#include <limits>
#include <utility>

#include "narrow/round/round_to.hpp"
#include "narrow/text/exact_number.hpp"

namespace narrow {

namespace {

int quantum_exponent(const ExactNumber& input, const Format& f) {
  if (f.is_integer() || input.is_zero()) return f.min_quantum_exponent();
  const Exact leading = leading_bits(input);
  const int exponent = leading.exponent + bit_length(leading.significand) - 1;
  return std::min(std::max(exponent, f.min_exponent()), f.max_exponent()) - f.mantissa_bits;
}

// result - input, exact but for the tail of a cut text.
ExactNumber difference(const ExactNumber& result, const ExactNumber& input) {
  detail::Aligned aligned = detail::align(result, input);
  ExactNumber d;
  d.power_of_two = aligned.power_of_two;
  d.power_of_ten = aligned.power_of_ten;
  const bool grows = aligned.a > aligned.b;
  if (result.negative != input.negative) {
    d.negative = result.negative;
    d.significand = std::move(aligned.a += aligned.b);
  } else if (grows) {
    d.negative = result.negative;
    d.significand = std::move(aligned.a -= aligned.b);
  } else {
    d.negative = !result.negative;  // the input is the larger magnitude, if only by its tail
    d.significand = std::move(aligned.b -= aligned.a);
    d.sticky = input.sticky;
  }
  return d;
}

}  // namespace

double ulp_error(const ExactNumber& input, Code result, const Format& f) {
  const ExactNumber output = exact_number(result, f);
  if (input.kind == NumberKind::nan || output.kind == NumberKind::nan) return std::numeric_limits<double>::quiet_NaN();
  if (compare(output, input) == 0) return 0;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (output.kind == NumberKind::inf) return output.negative ? -infinity : infinity;
  if (input.kind == NumberKind::inf) return input.negative ? infinity : -infinity;

  ExactNumber error = difference(output, input);
  error.power_of_two -= quantum_exponent(input, f);
  const double ulps = decode(round_number(error, "fp64"_fmt), "fp64"_fmt);
  if (ulps != 0) return ulps;
  constexpr double tiny = std::numeric_limits<double>::denorm_min();
  return error.negative ? -tiny : tiny;
}

}  // namespace narrow
