// Exact values for the oracle: fractions of unbounded integers with a power of two beside them. Never rounds.
#pragma once

#include <bit>
#include <boost/multiprecision/cpp_int.hpp>
#include <cstdint>

namespace oracle {

using Integer = boost::multiprecision::cpp_int;

// num / den * 2^exp2 with den > 0. Not reduced: a greatest common divisor costs more than the few bits it saves in the
// one or two operations that a test performs. Zero has no sign here; who needs the sign of a zero passes it beside.
struct Rational {
  Integer num = 0;
  Integer den = 1;
  int exp2 = 0;

  bool is_zero() const { return num == 0; }
  bool is_negative() const { return num < 0; }
};

inline Integer shifted(const Integer& x, int places) { return x << static_cast<unsigned>(places); }

inline Rational operator-(const Rational& a) { return {-a.num, a.den, a.exp2}; }
inline Rational operator*(const Rational& a, const Rational& b) {
  return {a.num * b.num, a.den * b.den, a.exp2 + b.exp2};
}
inline Rational operator+(const Rational& a, const Rational& b) {
  if (a.exp2 < b.exp2) return b + a;
  return {shifted(a.num, a.exp2 - b.exp2) * b.den + b.num * a.den, a.den * b.den, b.exp2};
}
inline Rational operator-(const Rational& a, const Rational& b) { return a + -b; }
inline Rational operator/(const Rational& a, const Rational& b) {  // b != 0
  Rational q{a.num * b.den, a.den * b.num, a.exp2 - b.exp2};
  if (q.den < 0) {
    q.num = -q.num;
    q.den = -q.den;
  }
  return q;
}
inline Rational abs(const Rational& a) { return a.is_negative() ? -a : a; }

// -1, 0 or 1 as a < b, a = b, a > b.
inline int compare(const Rational& a, const Rational& b) { return (a - b).num.sign(); }
inline bool operator<(const Rational& a, const Rational& b) { return compare(a, b) < 0; }
inline bool operator==(const Rational& a, const Rational& b) { return compare(a, b) == 0; }

inline Rational power_of_two(int exponent) { return {1, 1, exponent}; }

// The value of a finite double (and so of a float), from the IEEE definition of its bits.
inline Rational from_double(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const auto field = static_cast<int>(bits >> 52 & 0x7FF);
  const std::uint64_t fraction = bits & 0xFFFFFFFFFFFFFull;
  Rational r;
  r.num = field == 0 ? fraction : fraction + (1ull << 52);
  r.exp2 = (field == 0 ? 1 : field) - 1075;
  if (bits >> 63) r.num = -r.num;
  return r;
}

}  // namespace oracle
