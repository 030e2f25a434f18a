// What the array tests feed in: formats at the edges of every kernel, casts, and arrays whose special values come in
// some blocks only, so that both the fast and the careful path of a loop are walked.
#pragma once

#include <cmath>
#include <string_view>
#include <vector>

#include "narrow/round/named_cast.hpp"
#include "support/inputs.hpp"
#include "support/mismatches.hpp"
#include "support/rows.hpp"
#include "support/scale.hpp"

namespace test {

// Names beyond test::rows(): float's exponents with other mantissas, ranges that just fit float and just do not.
inline const std::vector<Row>& array_rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> list = rows();
    for (const char* name : {"e7m3", "e8m3", "e8m3fn", "e4m20", "e7m22"})
      list.push_back({name, narrow::find_format(name).value()});
    return list;
  }();
  return all;
}

inline Row row_of(const char* name) { return {name, narrow::find_format(name).value()}; }

// Every rounding x overflow x subnormals, the NaN rules in turn; every NaN rule; every count of random bits that
// matters.
inline const std::vector<narrow::Cast>& array_casts() {
  static const std::vector<narrow::Cast> all = [] {
    constexpr int nan_rules = 7;
    std::vector<narrow::Cast> list = all_casts();
    for (std::size_t i = 0; i < list.size(); ++i) list[i].nan = static_cast<narrow::Nan>(i % nan_rules);
    for (int nan = 0; nan < nan_rules; ++nan)
      for (const narrow::Overflow overflow : {narrow::Overflow::to_special, narrow::Overflow::saturate})
        list.push_back({.overflow = overflow, .nan = static_cast<narrow::Nan>(nan)});
    for (const narrow::Rounding rounding : roundings)
      for (const narrow::Overflow overflow : {narrow::Overflow::to_special, narrow::Overflow::saturate})
        list.push_back({.rounding = rounding, .overflow = overflow, .zero = narrow::Zero::positive});
    for (const int bits : {1, 7, 20, 31, 32, 33, 64})
      list.push_back({.rounding = narrow::Rounding::stochastic, .random_bits = bits});
    return list;
  }();
  return all;
}

struct FormatAndCast {
  std::string name;
  narrow::Format format;
  narrow::Cast cast;
};

inline std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text)
    if (c == ' ') words.emplace_back();
    else words.back() += c;
  return words;
}

// Every format and rounding of every row of the table of named casts.
inline std::vector<FormatAndCast> named_casts() {
  std::vector<FormatAndCast> list;
  for (const narrow::NamedCast& row : narrow::named_cast_table)
    for (const std::string& format : words_of(row.formats))
      for (const std::string& rounding : words_of(row.roundings))
        for (const narrow::Rounding r : roundings)
          if (rounding == name(r)) {
            narrow::Cast cast = row.cast;
            cast.rounding = r;
            list.push_back(
                {std::string(row.system) + " " + format + " " + rounding, row_of(format.c_str()).format, cast});
          }
  return list;
}

template <class T>
bool is_special(T x) {
  return !std::isfinite(x);
}

template <class T>
T special_value(std::uint64_t index) {
  using C = CarrierBits<T>;
  const std::uint64_t r = mix(index), inf = oracle::ones(C::width - 1 - C::mantissa_bits) << C::mantissa_bits;
  const std::uint64_t payload = index % 4 == 0 ? 0 : r >> (1 + index % 3 * 20) & oracle::ones(C::mantissa_bits);
  return from_bits<T>(inf | payload | (r & 1) << (C::width - 1));
}

// Spread values. Of each three runs of 64, one has no special value, one has one, at a place that moves on, and one has
// them as they come among random words; every ninth run is zeros and subnormals of the carrier.
template <class T>
std::vector<T> sprinkled(std::uint64_t count, const narrow::Format& f, std::uint64_t seed = 0) {
  std::vector<T> list(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t run = i / 64;
    T x = spread<T>(seed + i, f);
    if (run % 9 == 4) x = from_bits<T>(bits(x) & ~(oracle::ones(8) << CarrierBits<T>::mantissa_bits) & mix(i));
    if (run % 3 != 2 && is_special(x)) x = static_cast<T>(1.5);
    if (run % 3 == 1 && i % 64 == run / 3 % 64) x = special_value<T>(i);
    list[i] = x;
  }
  return list;
}

// The carrier's neighbours, three on either side, of every limit that a kernel could place by one too high or too low.
template <class T>
std::vector<T> near_limits(const narrow::Format& f) {
  const double top = value(oracle::largest_magnitude(f, false), f);
  const double low = std::ldexp(1.0, oracle::min_exponent(f)), least = std::ldexp(low, -f.mantissa_bits);
  std::vector<double> centers = {0, low, least, least / 2, least * 1.5, 0x1p-126, 0x1p-127, 0x1p-149, 1, 0x1p127};
  const double quantum = top - (top == 0 ? 0 : value(oracle::largest_magnitude(f, false) - 1, f));
  for (const double steps : {-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0}) centers.push_back(top + steps * quantum);
  std::vector<T> list;
  for (const double center : centers) {
    const std::uint64_t word = bits(static_cast<T>(center)), sign = std::uint64_t{1} << (CarrierBits<T>::width - 1);
    for (std::uint64_t w = word < 3 ? 0 : word - 3; w <= word + 3; ++w)
      for (const T x : {from_bits<T>(w), from_bits<T>(w | sign)})
        if (!is_special(x)) list.push_back(x);
  }
  return list;
}

// The critical inputs of all magnitudes of a small format, of the seams and some others of a large one; all finite.
template <class T>
std::vector<T> critical(const narrow::Format& f) {
  constexpr std::size_t small = 512, others = 40;
  const bool is_small = oracle::largest_magnitude(f, false) < small;
  std::vector<oracle::Code> list = magnitudes(f, others);
  if (!is_small && list.size() > 2 * small) {  // all of a middle-sized format: keep the ends and a few between
    std::vector<oracle::Code> few;
    const oracle::Code one = oracle::Code{1} << f.mantissa_bits;
    for (const oracle::Code m : list)
      if (m < 4 || m + 4 > list.size() || (m + 3) % one < 5 || mix(m) % list.size() < others) few.push_back(m);
    list = few;
  }
  std::vector<T> inputs;
  for (const oracle::Code m : list)
    for (const T x : around<T>(m, f))
      if (!is_special(x)) inputs.push_back(x);
  return inputs;
}

template <class T>
std::vector<T> joined(std::vector<T> a, const std::vector<T>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace test
