#include "formats/format_place.hpp"

#include <algorithm>
#include <cmath>

#include "narrow/text/exact_number.hpp"
#include "narrow/text/exact_sum.hpp"

namespace app {

using narrow::Cast;
using narrow::Code;
using narrow::ExactNumber;
using narrow::Format;

ExactNumber magnitude_of(ExactNumber x) {
  x.negative = false;
  return x;
}

Place place_of(const ExactNumber& x, const Format& f) {
  Place p;
  const narrow::Exact bits = narrow::leading_bits(x);
  p.binade = bits.exponent + narrow::bit_length(bits.significand) - 1;
  p.quantum = f.is_integer() ? f.min_quantum_exponent()
                             : std::clamp(p.binade, f.min_exponent(), f.max_exponent()) - f.mantissa_bits;
  const bool negative = x.negative && f.has_sign;
  ExactNumber magnitude = magnitude_of(x);
  const ExactNumber top = magnitude_of(narrow::exact_number(f.max_code(negative), f));
  p.beyond = narrow::compare(magnitude, top) > 0;
  p.below = !f.has_zero && narrow::compare(magnitude, narrow::exact_quanta(1, f.min_exponent())) < 0;
  // A format without signs sees the magnitude alone.
  const Cast cut{.rounding = narrow::Rounding::toward_zero, .overflow = narrow::Overflow::saturate};
  magnitude.negative = negative;
  const Code floor = narrow::round_number(magnitude, f, cut);
  const narrow::Unpacked u = narrow::unpack(floor, f);
  p.kept = u.is_zero() ? 0 : u.significand;
  narrow::ExactSum next;
  next.add(false, narrow::U128{p.kept} + 1, p.quantum);
  p.far_beyond = p.beyond && narrow::compare(magnitude_of(magnitude), next.value()) >= 0;
  p.exact = narrow::compare(magnitude, narrow::exact_number(floor, f)) == 0;
  p.fraction = std::fabs(narrow::ulp_error(magnitude, floor, f));
  narrow::ExactSum middle;
  middle.add(false, 2 * narrow::U128{p.kept} + 1, p.quantum - 1);
  p.tie = narrow::compare(magnitude_of(magnitude), middle.value()) == 0;
  return p;
}

}  // namespace app
