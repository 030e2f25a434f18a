// The definition of reading and rounding with Boost rationals: slow, obvious, and shares no code with the library.
#pragma once

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "narrow/format/format.hpp"
#include "narrow/round/cast.hpp"

namespace test {

using Integer = boost::multiprecision::cpp_int;
using Rational = boost::multiprecision::cpp_rational;

inline Integer power(unsigned base, int n) {
  return boost::multiprecision::pow(Integer(base), static_cast<unsigned>(n));
}

// base^n for any sign of n
inline Rational scale_of(unsigned base, int n) {
  return n >= 0 ? Rational(power(base, n)) : Rational(Integer(1), power(base, -n));
}

// "-12.5e-3": sign, digits, point, exponent, as they stand
inline Rational read_decimal(std::string text) {
  const bool negative = text[0] == '-';
  if (negative) text.erase(0, 1);
  int exponent = 0;
  if (const auto e = text.find('e'); e != std::string::npos) {
    exponent = std::stoi(text.substr(e + 1));
    text.erase(e);
  }
  if (const auto point = text.find('.'); point != std::string::npos) {
    exponent -= static_cast<int>(text.size() - point - 1);
    text.erase(point, 1);
  }
  text.erase(0, std::min(text.find_first_not_of('0'), text.size() - 1));
  const Rational value = Rational(Integer(text)) * scale_of(10, exponent);
  return negative ? Rational(-value) : value;
}

// Decimal digits of a rational whose denominator has only the factors 2 and 5: "123.456"
inline std::string write_decimal(const Rational& x, const std::string& more_digits = "") {
  Integer numerator = abs(boost::multiprecision::numerator(x));
  const Integer denominator = boost::multiprecision::denominator(x);
  std::string text = (x < 0 ? "-" : "") + Integer(numerator / denominator).str() + ".";
  for (Integer rest = numerator % denominator; rest != 0; rest %= denominator) {
    rest *= 10;
    text += Integer(rest / denominator).str();
  }
  return text + more_digits;
}

// The value of a magnitude code, from its fields. For formats with a zero.
inline Rational magnitude_value(std::uint64_t magnitude, const narrow::Format& f) {
  const std::uint64_t field = f.exponent_bits == 0 ? 0 : magnitude >> f.mantissa_bits;
  const std::uint64_t mantissa = field == 0 ? magnitude : magnitude - (field << f.mantissa_bits);
  const std::uint64_t significand = field == 0 ? mantissa : mantissa + (1ull << f.mantissa_bits);
  const int exponent = (field == 0 ? 1 : static_cast<int>(field)) - f.bias;
  return Rational(Integer(significand)) * scale_of(2, exponent - f.mantissa_bits);
}

// A value between two neighbouring magnitude codes, low and low + 1; the second may be beyond the largest.
struct Place {
  bool negative;
  std::uint64_t low;
  Rational fraction;  // 0 <= fraction < 1 of the way up
};

inline Place find_place(const Rational& x, const narrow::Format& f) {
  const Rational size = abs(x);
  std::uint64_t low = 0, high = f.max_magnitude(x < 0);  // value(low) <= size < value(high + 1)
  while (low < high) {
    const std::uint64_t middle = low + (high - low + 1) / 2;
    if (magnitude_value(middle, f) <= size) low = middle;
    else high = middle - 1;
  }
  const Rational below = magnitude_value(low, f), above = magnitude_value(low + 1, f);
  return {x < 0, low, (size - below) / (above - below)};
}

// The magnitude code that it rounds to.
inline std::uint64_t round_magnitude(const Place& place, const narrow::Cast& cast, std::uint64_t random) {
  if (place.fraction == 0) return place.low;
  const Rational half(1, 2);
  const bool nearer_up = place.fraction > half, tie = place.fraction == half, odd = place.low % 2 == 1;
  bool up = false;
  switch (cast.rounding) {
    case narrow::Rounding::nearest_even: up = nearer_up || (tie && odd); break;
    case narrow::Rounding::nearest_away: up = nearer_up || tie; break;
    case narrow::Rounding::nearest_to_zero: up = nearer_up; break;
    case narrow::Rounding::toward_zero: break;
    case narrow::Rounding::up: up = !place.negative; break;
    case narrow::Rounding::down: up = place.negative; break;
    case narrow::Rounding::to_odd: up = !odd; break;
    case narrow::Rounding::stochastic: {
      const Integer all = power(2, cast.random_bits);
      const Integer part = numerator(place.fraction) * all / denominator(place.fraction);
      up = part + Integer(random) % all >= all;
      break;
    }
  }
  return up ? place.low + 1 : place.low;
}

}  // namespace test
