// What meets in one step of a tensor core: exact terms, each with the exponent that its alignment counts.
#pragma once

#include <array>
#include <vector>

#include "narrow/dot/model.hpp"
#include "support/oracle.hpp"

namespace oracle {

// A finite input taken apart, not renormalised: value = +-m * 2^(e - fraction). Zero and subnormals have the exponent
// of the smallest normal value.
struct Factor {
  Kind kind = Kind::finite;
  bool negative = false;
  std::uint64_t m = 0;
  int e = 0, fraction = 0;

  bool is_zero() const { return kind == Kind::finite && m == 0; }
};

inline Factor factor_of(Code code, const Format& f) {
  Factor x;
  x.kind = value_of(code, f).kind;
  x.negative = (code & sign_bit(f)) != 0;
  x.fraction = f.mantissa_bits;
  const Code field = (code & below_sign(f)) >> f.mantissa_bits, mantissa = code & ones(f.mantissa_bits);
  const bool normal = field != 0 || !f.has_zero;
  x.m = normal ? mantissa + (Code{1} << f.mantissa_bits) : mantissa;
  x.e = normal ? static_cast<int>(field) - f.bias : 1 - f.bias;
  return x;
}

// One summand: m * 2^(e - fraction), m of either sign; e is what alignment looks at.
struct Term {
  Integer m;
  int e, fraction;
};

// The terms of a step, and what Inf and NaN among its inputs decide before any arithmetic.
struct Step {
  bool nan = false, plus_inf = false, minus_inf = false;
  std::vector<Term> terms;  // those that are not zero

  bool is_special() const { return nan || plus_inf || minus_inf; }
  void add_inf(bool negative) { (negative ? minus_inf : plus_inf) = true; }

  void add_product(const Factor& a, const Factor& b, int scale_exponent = 0) {
    if (a.kind == Kind::nan || b.kind == Kind::nan) {
      nan = true;
    } else if (a.kind == Kind::inf || b.kind == Kind::inf) {
      if (a.is_zero() || b.is_zero()) nan = true;
      else add_inf(a.negative != b.negative);
    } else if (!a.is_zero() && !b.is_zero()) {
      const Integer m = Integer(a.m) * b.m;
      terms.push_back(
          {a.negative != b.negative ? Integer(-m) : m, a.e + b.e + scale_exponent, a.fraction + b.fraction});
    }
  }
  void add_addend(const Factor& c) {
    if (c.kind == Kind::nan) nan = true;
    else if (c.kind == Kind::inf) add_inf(c.negative);
    else if (!c.is_zero()) terms.push_back({c.negative ? -Integer(c.m) : Integer(c.m), c.e, c.fraction});
  }
  // The code when Inf or NaN is among the inputs.
  Code special(const Format& f) const {
    if (nan || (plus_inf && minus_inf)) return nan_code(false, f);
    return special_code(minus_inf, f);
  }
};

inline Integer toward_zero(const Integer& x, int places) {  // x * 2^places, fraction dropped
  if (places >= 0) return shifted(x, places);
  const Integer magnitude = (x < 0 ? Integer(-x) : x) >> static_cast<unsigned>(-places);
  return x < 0 ? Integer(-magnitude) : magnitude;
}
inline Integer downward(const Integer& x, int places) {  // x * 2^places, floor
  const Integer cut = toward_zero(x, places);
  return places < 0 && x < 0 && shifted(cut, -places) != x ? Integer(cut - 1) : cut;
}

// All terms cut to multiples of 2^(largest - fraction_bits) and added.
inline Integer cut_and_add(const std::vector<Term>& terms, int largest, int fraction_bits) {
  Integer sum = 0;
  for (const Term& t : terms) sum += toward_zero(t.m, (t.e - t.fraction) - (largest - fraction_bits));
  return sum;
}

}  // namespace oracle
