// Inputs for conversions: spread over the carrier and over the range of a format, and the critical ones around every
// value.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "support/oracle.hpp"

namespace test {

inline constexpr float infinity = std::numeric_limits<float>::infinity(), nan_value = std::numeric_limits<float>::quiet_NaN();

// The splitmix64 step, written again: the tests share no code with base/random.hpp.
constexpr std::uint64_t mix(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

template <class T>
struct CarrierBits;
template <>
struct CarrierBits<float> {
  using Word = std::uint32_t;
  static constexpr int width = 32, mantissa_bits = 23, min_exponent = -126, max_exponent = 127;
};
template <>
struct CarrierBits<double> {
  using Word = std::uint64_t;
  static constexpr int width = 64, mantissa_bits = 52, min_exponent = -1022, max_exponent = 1023;
};

template <class T>
auto bits(T x) {
  return std::bit_cast<typename CarrierBits<T>::Word>(x);
}
template <class T>
T from_bits(std::uint64_t word) {
  return std::bit_cast<T>(static_cast<typename CarrierBits<T>::Word>(word));
}

// Even indices: any word of the carrier. Odd indices: exponents from two below the smallest value of the format to two
// above the largest, mantissas with a random number of zeros at the end, so that exact values and ties are frequent.
template <class T>
T spread(std::uint64_t index, const narrow::Format& f) {
  using C = CarrierBits<T>;
  const std::uint64_t r = mix(index), s = mix(r);
  if (index % 2 == 0) return from_bits<T>(r >> (64 - C::width));
  const int top =
      f.twos_complement ? 8 : static_cast<int>(oracle::largest_magnitude(f, false) >> f.mantissa_bits) - f.bias;
  const int low = std::max(oracle::min_exponent(f) - f.mantissa_bits - 2, C::min_exponent);
  const int high = std::clamp(top + 2, low, C::max_exponent);
  const auto exponent = low + static_cast<int>(s % static_cast<std::uint64_t>(high - low + 1));
  const int zeros = static_cast<int>(s >> 32 & 0xFF) % (C::mantissa_bits + 1);
  const std::uint64_t mantissa = r & oracle::ones(C::mantissa_bits) & ~oracle::ones(zeros);
  const auto field = static_cast<std::uint64_t>(exponent - C::min_exponent + 1);
  return from_bits<T>((s >> 63) << (C::width - 1) | field << C::mantissa_bits | mantissa);
}

// Exact when the value is one of double's.
inline double to_double(const oracle::Rational& x) { return std::ldexp(static_cast<double>(x.num), x.exp2); }

inline double value(oracle::Code magnitude, const narrow::Format& f) {
  return to_double(oracle::value_of(magnitude, f).magnitude);
}

// Magnitudes whose neighbourhoods are visited: all of a small format, else the seams and `count` others.
inline std::vector<oracle::Code> magnitudes(const narrow::Format& f, std::uint64_t count) {
  const oracle::Code largest = oracle::largest_magnitude(f, false);
  std::vector<oracle::Code> list;
  if (largest < 1u << 18) {
    for (oracle::Code m = 0; m <= largest; ++m) list.push_back(m);
    return list;
  }
  const oracle::Code one = oracle::Code{1} << f.mantissa_bits;
  for (const oracle::Code seam : {oracle::Code{1}, one, 2 * one, largest - one, largest})
    for (const oracle::Code m : {seam - 1, seam, seam + 1})
      if (m <= largest) list.push_back(m);
  for (std::uint64_t i = 0; i < count; ++i) list.push_back(mix(i) % (largest + 1));
  return list;
}

// One magnitude's critical inputs: the value, the middle to the next multiple of the quantum (above the largest value
// also that multiple, which is no value of the format), and the carrier's neighbours of each; both signs.
template <class T>
std::vector<T> around(oracle::Code magnitude, const narrow::Format& f) {
  const double here = value(magnitude, f);
  const int log2 = here == 0 ? oracle::min_exponent(f) : std::ilogb(here);
  const double quantum = std::ldexp(1.0, oracle::quantum_exponent(log2, f));
  std::vector<double> centers = {here, here + quantum / 2};
  if (magnitude == oracle::largest_magnitude(f, false)) centers.push_back(here + quantum);
  std::vector<T> list;
  for (const double center : centers) {
    const std::uint64_t word = bits(static_cast<T>(center));
    for (const std::uint64_t w : {word == 0 ? 0 : word - 1, word, word + 1}) {
      list.push_back(from_bits<T>(w));
      list.push_back(from_bits<T>(w | std::uint64_t{1} << (CarrierBits<T>::width - 1)));
    }
  }
  return list;
}

template <class T>
std::vector<T> limits() {
  using L = std::numeric_limits<T>;
  std::vector<T> list = {0, L::denorm_min(), L::min(),      L::min() - L::denorm_min(),
                         1, L::max(),        L::infinity(), L::quiet_NaN()};
  for (std::size_t i = 0, n = list.size(); i < n; ++i) list.push_back(-list[i]);
  return list;
}

}  // namespace test
