// Single IEEE operations on codes, from the values: multiply, add, fused multiply-add, nearest even, any format.
#pragma once

#include "support/oracle.hpp"

namespace oracle {

inline Code ieee_nan(const Format& f) { return nan_code(false, f); }

// x + y where each is a finite value with the sign of its zero, an infinity or a NaN; result in f.
inline Code ieee_sum(const Value& x, const Value& y, const Format& f, const Cast& cast = {}) {
  if (x.kind == Kind::nan || y.kind == Kind::nan) return ieee_nan(f);
  if (x.kind == Kind::inf && y.kind == Kind::inf && x.negative != y.negative) return ieee_nan(f);
  if (x.kind == Kind::inf || y.kind == Kind::inf) return special_code(x.kind == Kind::inf ? x.negative : y.negative, f);
  // Zeros of the same sign keep it; an exact cancellation gives +0.
  return round_rational(x.exact() + y.exact(), x.negative && y.negative, f, cast);
}

inline Value ieee_product(const Value& x, const Value& y) {
  Value p;
  p.negative = x.negative != y.negative;
  const auto is_zero = [](const Value& v) { return v.kind == Kind::finite && v.magnitude.is_zero(); };
  if (x.kind == Kind::nan || y.kind == Kind::nan || (x.kind == Kind::inf && is_zero(y)) ||
      (y.kind == Kind::inf && is_zero(x)))
    p.kind = Kind::nan;
  else if (x.kind == Kind::inf || y.kind == Kind::inf) p.kind = Kind::inf;
  else p.magnitude = x.magnitude * y.magnitude;
  return p;
}

inline Code ieee_round(const Value& x, const Format& f, const Cast& cast = {}) {
  if (x.kind == Kind::nan) return ieee_nan(f);
  if (x.kind == Kind::inf) return special_code(x.negative, f);
  return round_rational(x.exact(), x.negative, f, cast);
}

inline Code ieee_add(Code x, Code y, const Format& f, const Cast& cast = {}) {
  return ieee_sum(value_of(x, f), value_of(y, f), f, cast);
}
inline Code ieee_sub(Code x, Code y, const Format& f) {
  Value minus = value_of(y, f);
  minus.negative = !minus.negative;
  return ieee_sum(value_of(x, f), minus, f);
}
inline Code ieee_mul(Code x, const Format& fx, Code y, const Format& fy, const Format& f, const Cast& cast = {}) {
  return ieee_round(ieee_product(value_of(x, fx), value_of(y, fy)), f, cast);
}
inline Code ieee_fma(Code x, const Format& fx, Code y, const Format& fy, Code z, const Format& f) {
  return ieee_sum(ieee_product(value_of(x, fx), value_of(y, fy)), value_of(z, f), f);
}

}  // namespace oracle
