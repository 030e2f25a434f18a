// Where an exact value lies between two multiples of its quantum: everything a rounding mode may ask. By integer
// division with remainder, or for a square root by comparing squares.
#pragma once

#include "support/oracle/value.hpp"

namespace oracle {

__extension__ typedef unsigned __int128 Wide;

// |x| = (steps + rest) * 2^quantum with 0 <= rest < 1.
struct Split {
  bool negative = false;
  int quantum = 0;             // exponent of the quantum
  std::uint64_t steps = 0;     // below 2^(mantissa_bits + 1)
  bool exact = true;           // rest == 0
  int half = -1;               // -1, 0, 1 as rest is below, at, above one half
  std::uint64_t fraction = 0;  // floor(rest * 2^64)
};

// Exponents are unbounded above; below min_exponent the quantum stays that of the lowest binade.
inline int quantum_exponent(int floor_log2, const Format& f) {
  return std::max(floor_log2, min_exponent(f)) - f.mantissa_bits;
}

inline int bits_of(const Integer& x) { return x == 0 ? 0 : static_cast<int>(msb(x)) + 1; }
inline int bits_of(Wide x) {
  const auto high = static_cast<std::uint64_t>(x >> 64);
  return high ? 128 - std::countl_zero(high) : 64 - std::countl_zero(static_cast<std::uint64_t>(x));
}

// num / den * 2^exp2 with num, den > 0.
template <class Int>
int floor_log2(const Int& num, const Int& den, int exp2) {
  // 2^(d-1) < num / den < 2^(d+1) for d the difference of the lengths
  const int d = bits_of(num) - bits_of(den);
  const bool reaches =
      d >= 0 ? num >= Int(den << static_cast<unsigned>(d)) : Int(num << static_cast<unsigned>(-d)) >= den;
  return exp2 + (reaches ? d : d - 1);
}

// n / d = steps + rest, in any integer type wide enough for n * 2 and d * 2 (the fraction is computed elsewhere).
template <class Int>
Int divide(const Int& n, const Int& d, Split& s) {
  const Int quotient = n / d;
  const Int rest = n - quotient * d;
  s.steps = static_cast<std::uint64_t>(quotient);
  s.exact = rest == 0;
  const Int twice = rest << 1u;
  s.half = twice < d ? -1 : twice == d ? 0 : 1;
  return rest;
}

// |x| = num / den * 2^exp2 > 0; the same division in two integer types, since the narrow one is ten times faster.
inline Split split_fraction(bool negative, const Integer& num, const Integer& den, int exp2, const Format& f) {
  Split s;
  s.negative = negative;
  s.quantum = quantum_exponent(floor_log2(num, den, exp2), f);
  const int shift = exp2 - s.quantum;
  const Integer n = shifted(num, std::max(shift, 0)), d = shifted(den, std::max(-shift, 0));
  const Integer rest = divide(n, d, s);
  s.fraction = static_cast<std::uint64_t>(Integer((rest << 64u) / d));
  return s;
}

// The same for num, den < 2^63 and without the fraction (0 stands there) when that needs more than 128 bits and
// stochastic rounding is not asked for.
inline Split split_small(bool negative, std::uint64_t num, std::uint64_t den, int exp2, const Format& f,
                         bool fraction) {
  Split s;
  s.negative = negative;
  s.quantum = quantum_exponent(floor_log2<Wide>(num, den, exp2), f);
  const int shift = exp2 - s.quantum;
  const int n_bits = bits_of(Wide{num}) + std::max(shift, 0), d_bits = bits_of(Wide{den}) + std::max(-shift, 0);
  if (!fraction && d_bits > n_bits + 1) {  // num / den * 2^shift < 1/2
    s.exact = false;
    return s;
  }
  if (n_bits > 126 || d_bits > (fraction ? 63 : 126)) return split_fraction(negative, num, den, exp2, f);
  const Wide d = Wide{den} << std::max(-shift, 0);
  const Wide rest = divide<Wide>(Wide{num} << std::max(shift, 0), d, s);
  if (fraction) s.fraction = static_cast<std::uint64_t>((rest << 64) / d);
  return s;
}

inline Split split(const Rational& x, bool negative_zero, const Format& f, bool fraction = true) {
  if (x.is_zero()) {
    Split s;
    s.negative = negative_zero;
    s.quantum = min_exponent(f) - f.mantissa_bits;
    return s;
  }
  const bool negative = x.is_negative();
  const Integer num = negative ? Integer(-x.num) : x.num;
  if (bits_of(num) <= 63 && bits_of(x.den) <= 63)
    return split_small(negative, static_cast<std::uint64_t>(num), static_cast<std::uint64_t>(x.den), x.exp2, f,
                       fraction);
  return split_fraction(negative, num, x.den, x.exp2, f);
}

// The square root of x > 0. Everything is asked about squares, so nothing is ever irrational:
//   steps = floor(sqrt(x / q^2)) = isqrt(floor(x / q^2)),   rest >= half exactly when x / q^2 >= (steps + 1/2)^2.
inline Split split_sqrt(const Rational& x, const Format& f) {
  Split s;
  const int log2_x = floor_log2<Integer>(x.num, x.den, x.exp2);
  const int log2_root = log2_x >= 0 ? log2_x / 2 : -((1 - log2_x) / 2);  // floor(log2_x / 2)
  s.quantum = quantum_exponent(log2_root, f);
  const Rational in_quanta{x.num, x.den, x.exp2 - 2 * s.quantum};
  const auto floor_root = [&](int extra_bits) {  // floor(sqrt(in_quanta) * 2^extra_bits)
    const int shift = in_quanta.exp2 + 2 * extra_bits;
    return Integer(sqrt(Integer(shifted(x.num, std::max(shift, 0)) / shifted(x.den, std::max(-shift, 0)))));
  };
  const Integer steps = floor_root(0);
  s.steps = static_cast<std::uint64_t>(steps);
  const Rational floor{steps}, middle{2 * steps + 1, 1, -1};
  s.exact = floor * floor == in_quanta;
  s.half = compare(in_quanta, middle * middle);
  s.fraction = static_cast<std::uint64_t>(Integer(floor_root(64) - (steps << 64u)));
  return s;
}

}  // namespace oracle
