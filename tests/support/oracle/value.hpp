// What a code means, read off the definition of the formats. Uses the data members of Format only, none of its
// functions: those are under test.
#pragma once

#include "narrow/format/format.hpp"
#include "support/oracle/rational.hpp"

namespace oracle {

using narrow::Code;
using narrow::Format;
using narrow::Specials;

enum class Kind { finite, inf, nan };

struct Value {
  Kind kind = Kind::finite;
  bool negative = false;  // the sign bit; also of a zero and of a NaN
  Rational magnitude{};   // of a finite value
  Rational exact() const { return negative ? -magnitude : magnitude; }
};

inline Code ones(int bits) { return bits == 0 ? 0 : ~Code{0} >> (64 - bits); }
inline int width(const Format& f) { return (f.has_sign ? 1 : 0) + f.exponent_bits + f.mantissa_bits; }
inline Code sign_bit(const Format& f) { return f.has_sign ? Code{1} << (width(f) - 1) : 0; }
inline Code below_sign(const Format& f) { return ones(f.exponent_bits + f.mantissa_bits); }
inline int min_exponent(const Format& f) { return f.has_zero ? 1 - f.bias : -f.bias; }
inline bool has_negative_zero(const Format& f) {
  const bool taken_by_nan = f.specials == Specials::nan_is_negative_zero || f.specials == Specials::extended;
  return f.has_sign && f.has_zero && !f.twos_complement && !taken_by_nan;
}

// The magnitude (the bits below the sign) of the largest finite value of one sign.
inline Code largest_magnitude(const Format& f, bool negative) {
  switch (f.specials) {
    case Specials::inf_and_nan: return (ones(f.exponent_bits) - 1) << f.mantissa_bits | ones(f.mantissa_bits);
    case Specials::nan_only: return below_sign(f) - 1;
    case Specials::extended: return f.has_sign ? below_sign(f) - 1 : below_sign(f) - 2;  // Inf; Inf and NaN
    case Specials::nan_is_negative_zero:
    case Specials::none: break;
  }
  return f.twos_complement && negative ? below_sign(f) + 1 : below_sign(f);
}

inline Value value_of(Code code, const Format& f) {
  Value v;
  v.negative = (code & sign_bit(f)) != 0;
  const Code rest = code & below_sign(f);
  if (f.exponent_bits == 0) {
    // The sign bit, where there is one, weighs -2^(width - 1); the quantum is that of the lowest binade.
    const Integer integer = Integer(rest) - Integer(v.negative ? sign_bit(f) : 0);
    v.magnitude = abs(Rational{integer, 1, min_exponent(f) - f.mantissa_bits});
    return v;
  }
  const auto field = static_cast<int>(rest >> f.mantissa_bits);
  const Code mantissa = rest & ones(f.mantissa_bits);
  if (f.specials == Specials::inf_and_nan && static_cast<Code>(field) == ones(f.exponent_bits)) {
    v.kind = mantissa == 0 ? Kind::inf : Kind::nan;
  } else if (f.specials == Specials::nan_only && rest == below_sign(f)) {
    v.kind = Kind::nan;
  } else if (f.specials == Specials::nan_is_negative_zero && v.negative && rest == 0) {
    v.kind = Kind::nan;
  } else if (f.specials == Specials::extended && (f.has_sign ? code == sign_bit(f) : rest == below_sign(f))) {
    v.kind = Kind::nan;
  } else if (f.specials == Specials::extended && rest == below_sign(f) - (f.has_sign ? 0 : 1)) {
    v.kind = Kind::inf;
  } else if (field == 0 && f.has_zero) {
    v.magnitude = {mantissa, 1, 1 - f.bias - f.mantissa_bits};
  } else {
    v.magnitude = {mantissa + (Code{1} << f.mantissa_bits), 1, field - f.bias - f.mantissa_bits};
  }
  return v;
}

}  // namespace oracle
