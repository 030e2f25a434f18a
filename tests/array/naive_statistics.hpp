// The statistics by a plain loop over the definitions in statistics.hpp, one element at a time, in double.
#pragma once

#include <cmath>
#include <limits>
#include <span>

#include "array/inputs.hpp"
#include "narrow/array/statistics.hpp"
#include "narrow/base/random.hpp"

namespace test {

// The largest finite magnitude of each sign and its quantum.
struct Limit {
  double largest[2], quantum[2];
};
inline Limit limit_of(const narrow::Format& f) {
  Limit limit{};
  for (const bool negative : {false, true}) {
    limit.largest[negative] = value(oracle::largest_magnitude(f, negative), f);
    limit.quantum[negative] = std::ldexp(1.0, oracle::quantum_exponent(std::ilogb(limit.largest[negative]), f));
  }
  return limit;
}

// Whether a value, rounded with no upper limit on the exponent, is beyond the largest finite value. Beyond it the
// quantum stays that of the last binade: with L = k quanta only the first quantum above L depends on the mode.
inline bool naive_overflow(double s, const Limit& limit, const narrow::Cast& cast, std::uint64_t random) {
  const bool negative = s < 0;
  const double largest = limit.largest[negative], quantum = limit.quantum[negative];
  const double beyond = (std::abs(s) - largest) / quantum;  // exact below one, where it matters
  if (!(beyond > 0)) return false;
  if (beyond >= 1) return true;
  const bool odd = std::fmod(largest / quantum, 2) == 1;
  switch (cast.rounding) {
    case narrow::Rounding::nearest_even: return beyond > 0.5 || (beyond == 0.5 && odd);
    case narrow::Rounding::nearest_away: return beyond >= 0.5;
    case narrow::Rounding::nearest_to_zero: return beyond > 0.5;
    case narrow::Rounding::toward_zero: return false;
    case narrow::Rounding::up: return !negative;
    case narrow::Rounding::down: return negative;
    case narrow::Rounding::to_odd: return !odd;
    case narrow::Rounding::stochastic: break;
  }
  const oracle::Wide all = oracle::Wide{1} << cast.random_bits;
  const auto fraction = static_cast<oracle::Wide>(std::ldexp(beyond, cast.random_bits));
  return fraction + random % all >= all;
}

struct NaiveSums {
  double absolute = 0;  // sum of magnitudes: what a sum's rounding errors are measured by
};

template <class T>
void add_input(narrow::InputStatistics& in, T x, NaiveSums& sums) {
  const double value = static_cast<double>(x);
  ++in.count;
  if (std::isnan(value)) ++in.nan;
  else if (std::isinf(value)) ++in.inf;
  else {
    if (value == 0) ++in.zeros;
    else in.min_nonzero = in.min_nonzero == 0 ? std::abs(value) : std::min(in.min_nonzero, std::abs(value));
    in.amax = std::max(in.amax, std::abs(value));
    in.sum += value, sums.absolute += std::abs(value);
  }
}

template <class T>
void add_format(narrow::FormatStatistics& out, T x, T scale, const narrow::FormatCast& to, const Limit& limit,
                std::uint64_t random) {
  if (!std::isfinite(x)) return;
  const T scaled = x * scale;
  const narrow::Code code = narrow::encode(scaled, to.format, to.cast, random);
  const double before = static_cast<double>(x);
  const auto after = static_cast<double>(narrow::round_to(scaled, to.format, to.cast, random));
  // A double that goes through FP32 is that float from then on.
  const auto rounded_from =
      to.cast.through_fp32 ? static_cast<double>(static_cast<float>(scaled)) : static_cast<double>(scaled);
  const bool lost_sign = std::signbit(before) && before != 0 && !to.format.has_sign;
  const bool overflow = !lost_sign && naive_overflow(rounded_from, limit, to.cast, random);
  const narrow::ValueClass kind = narrow::classify(code, to.format);
  if (overflow) ++out.overflow;
  if (overflow && std::isfinite(after)) ++out.saturated;
  if (before != 0 && kind == narrow::ValueClass::zero) ++out.underflow;
  if (kind == narrow::ValueClass::subnormal) ++out.subnormal;
  if (!std::isfinite(after)) return void(++out.not_finite);
  const double error = after * (1 / static_cast<double>(scale)) - before;
  ++out.compared;
  out.squared_error += error * error, out.signal += before * before;
  if (before != 0) out.max_relative_error = std::max(out.max_relative_error, std::abs(error / before));
}

template <class T>
narrow::Statistics naive_statistics(std::span<const T> data, std::span<const narrow::FormatCast> formats, double scale,
                                    std::uint64_t seed, NaiveSums& sums) {
  narrow::Statistics all;
  all.formats.resize(formats.size());
  std::vector<Limit> limits;
  for (const narrow::FormatCast& to : formats) limits.push_back(limit_of(to.format));
  for (std::size_t i = 0; i < data.size(); ++i) {
    add_input(all.input, data[i], sums);
    for (std::size_t k = 0; k < formats.size(); ++k) {
      const bool stochastic = formats[k].cast.rounding == narrow::Rounding::stochastic;
      add_format(all.formats[k], data[i], static_cast<T>(scale), formats[k], limits[k],
                 stochastic ? narrow::random_bits(seed, i) : 0);
    }
  }
  return all;
}

// Sums of at most 2^18 terms in another order differ by less than 2^18 roundings of 2^-53 each.
constexpr double sum_tolerance = 0x1p-35;
// The largest relative error may come from a comparison in float, whose quotient has 24 bits.
constexpr double relative_error_tolerance = 0x1p-22;

inline bool is_near(double a, double b, double size, double tolerance) {
  return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance * size;
}

// What differs, in words; empty when nothing does.
inline std::string differences(const narrow::Statistics& want, const narrow::Statistics& got, const NaiveSums& sums) {
  std::string text;
  const auto count = [&](const char* what, std::uint64_t a, std::uint64_t b) {
    if (a != b) text += std::string(" ") + what + " " + std::to_string(a) + " got " + std::to_string(b);
  };
  const auto near = [&](const char* what, double a, double b, double size, double tolerance) {
    if (!is_near(a, b, size, tolerance)) text += std::string(" ") + what + " " + hex_float(a) + " got " + hex_float(b);
  };
  const narrow::InputStatistics &x = want.input, &y = got.input;
  count("count", x.count, y.count), count("zeros", x.zeros, y.zeros);
  count("nan", x.nan, y.nan), count("inf", x.inf, y.inf);
  near("amax", x.amax, y.amax, 0, 0), near("min_nonzero", x.min_nonzero, y.min_nonzero, 0, 0);
  near("sum", x.sum, y.sum, sums.absolute, sum_tolerance);
  count("formats", want.formats.size(), got.formats.size());
  for (std::size_t k = 0; k < std::min(want.formats.size(), got.formats.size()); ++k) {
    const narrow::FormatStatistics &a = want.formats[k], &b = got.formats[k];
    const std::string before = text;
    count("underflow", a.underflow, b.underflow), count("subnormal", a.subnormal, b.subnormal);
    count("overflow", a.overflow, b.overflow), count("saturated", a.saturated, b.saturated);
    count("not finite", a.not_finite, b.not_finite), count("clamped", a.clamped, b.clamped);
    count("compared", a.compared, b.compared);
    near("squared_error", a.squared_error, b.squared_error, a.squared_error, sum_tolerance);
    near("signal", a.signal, b.signal, a.signal, sum_tolerance);
    near("max_relative_error", a.max_relative_error, b.max_relative_error, a.max_relative_error,
         relative_error_tolerance);
    if (text != before) text += " (format " + std::to_string(k) + ")";
  }
  return text;
}

// All numbers of the statistics as words, for comparison bit by bit.
inline std::vector<std::uint64_t> all_bits(const narrow::Statistics& s) {
  const narrow::InputStatistics& in = s.input;
  std::vector<std::uint64_t> words = {
      in.count, in.zeros, in.nan, in.inf, bits(in.amax), bits(in.min_nonzero), bits(in.sum)};
  for (const narrow::FormatStatistics& f : s.formats)
    for (const std::uint64_t word : {f.underflow, f.subnormal, f.overflow, f.saturated, f.not_finite, f.compared,
                                     bits(f.squared_error), bits(f.signal), bits(f.max_relative_error)})
      words.push_back(word);
  return words;
}

}  // namespace test
