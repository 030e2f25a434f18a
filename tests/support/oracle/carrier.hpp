// The oracle asked about a float or a double, as encode() is. Included by oracle.hpp.
#pragma once

#include "support/oracle.hpp"

namespace oracle {

// A carrier word taken apart by the definition of IEEE 754.
struct Word {
  Kind kind = Kind::finite;
  bool negative = false;
  bool subnormal = false;
  std::uint64_t payload = 0;      // of a NaN, left-aligned
  std::uint64_t significand = 0;  // finite: significand * 2^exponent
  int exponent = 0;
};

inline Word take_apart(std::uint64_t bits, int exponent_bits, int mantissa_bits) {
  Word w;
  const std::uint64_t mantissa = bits & ones(mantissa_bits);
  const std::uint64_t field = bits >> mantissa_bits & ones(exponent_bits);
  w.negative = (bits >> (exponent_bits + mantissa_bits) & 1) != 0;
  if (field == ones(exponent_bits)) {
    w.kind = mantissa == 0 ? Kind::inf : Kind::nan;
    w.payload = mantissa << (64 - mantissa_bits);
    return w;
  }
  w.subnormal = field == 0 && mantissa != 0;
  w.significand = field == 0 ? mantissa : mantissa + (1ull << mantissa_bits);
  w.exponent = static_cast<int>(field == 0 ? 1 : field) - ((1 << (exponent_bits - 1)) - 1) - mantissa_bits;
  return w;
}
inline Word take_apart(float x) { return take_apart(std::bit_cast<std::uint32_t>(x), 8, 23); }
inline Word take_apart(double x) { return take_apart(std::bit_cast<std::uint64_t>(x), 11, 52); }

inline Split split(const Word& w, const Format& f, bool fraction) {
  if (w.significand == 0) return split(Rational{}, w.negative, f, fraction);
  return split_small(w.negative, w.significand, 1, w.exponent, f, fraction);
}

// For many casts of one input: split(word, while_rounding(f, cast), true) once, then this for each cast.
inline Code round_word(const Word& w, const Split& s, const Format& f, const Cast& cast, std::uint64_t random) {
  if (w.kind == Kind::nan) return round_nan(w.negative, w.payload, f, cast);
  if (w.kind == Kind::inf) return round_inf(w.negative, f, cast);
  if (w.subnormal && cast.subnormals == Subnormals::flush_inputs) return exact_zero(w.negative, f, cast);
  return finish(s, f, cast, random);
}

// Float is float or double.
template <class Float>
Code round(Float x, const Format& f, Cast cast = {}, std::uint64_t random = 0) {
  if (sizeof(Float) == 8 && cast.double_keeps_nan) cast.nan = Nan::keep_payload;
  const Word w = take_apart(x);
  const bool fraction = cast.rounding == Rounding::stochastic;
  const Split s = w.kind == Kind::finite ? split(w, while_rounding(f, cast), fraction) : Split{};
  return round_word(w, s, f, cast, random);
}

}  // namespace oracle
