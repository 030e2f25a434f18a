// How often each binade occurs, by sign, in one pass; and what follows from it for any format at any power-of-two scale.
//
//   const std::vector<float> gradients = {1e-8F, -3e-6F, 2e-4F};
//   const ExponentHistogram h = exponent_histogram(gradients);
//   const HistogramShares lost = shares_from_histogram(h, {"fp16"_fmt, {}});  // without reading the data again
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "narrow/array/statistics.hpp"

namespace narrow {

// How many values of each sign.
struct SignCounts {
  std::uint64_t negative = 0, positive = 0;
  std::uint64_t total() const { return negative + positive; }
};

// Binades of a float: [2^e, 2^(e+1)) for e = -126 .. 127, the subnormals below 2^-126 as one, zero, Inf and NaN.
struct ExponentHistogram {
  static constexpr int min_exponent = -126, max_exponent = 127;

  SignCounts zero, subnormal, inf, nan;
  std::array<SignCounts, max_exponent - min_exponent + 1> binades{};

  const SignCounts& binade(int exponent) const { return binades[static_cast<std::size_t>(exponent - min_exponent)]; }
  SignCounts& binade(int exponent) { return binades[static_cast<std::size_t>(exponent - min_exponent)]; }
  std::uint64_t count() const;
  void merge(const ExponentHistogram& other);
};

// One pass over the data.
ExponentHistogram exponent_histogram(std::span<const float> data, int threads = 0);

// A count known to lie between two bounds, which differ by the binades that a threshold cuts.
struct Bounds {
  std::uint64_t lower = 0, upper = 0;
};

// What a format makes of the data behind a histogram when it is multiplied by 2^scale_log2 first.
struct HistogramShares {
  Bounds underflow, subnormal, overflow;
};
HistogramShares shares_from_histogram(const ExponentHistogram& h, const FormatCast& to, int scale_log2 = 0);

// What becomes of the values of each binade in a format; zeros, Inf and NaN are left out.
enum class Fate : std::uint8_t { zero, subnormal, normal, beyond };  // beyond: overflows, or becomes NaN
struct Fates {
  std::array<std::uint64_t, 4> of{};  // [Fate]
  std::uint64_t& operator[](Fate fate) { return of[static_cast<std::size_t>(fate)]; }
  std::uint64_t operator[](Fate fate) const { return of[static_cast<std::size_t>(fate)]; }
  std::uint64_t total() const { return of[0] + of[1] + of[2] + of[3]; }
  void add(const Fates& other);
};
// What becomes of the values of each binade.
struct BinadeFates {
  int min_exponent = ExponentHistogram::min_exponent;
  std::vector<Fates> binades;  // [0]: below 2^min_exponent, [k]: binade min_exponent + k - 1

  Fates all() const;
  void merge(const BinadeFates& other);  // the wider one decides
};

// The largest k from -126 to 127 so that nothing from low to high overflows when it is multiplied by 2^k in this
// carrier; empty where there is none. Finite extremes; a stochastic cast must not overflow whatever it draws.
std::optional<int> largest_scale_log2(float low, float high, const FormatCast& to);
std::optional<int> largest_scale_log2(double low, double high, const FormatCast& to);

// The loss scale for data of which the histogram is known: of the powers of two at which nothing from low to high
// overflows the one that loses the fewest values to zero, of equal ones the closest to 1. A binade that the threshold
// cuts counts as kept (to nearest, it is cut at its first value). Empty where every scale overflows.
std::optional<int> loss_scale_log2(const ExponentHistogram& h, float low, float high, const FormatCast& to);

// The exact counts for formats and scales that are named before the pass: thresholds on the magnitude are counted.
struct ScaledFormat {
  FormatCast to;
  int scale_log2 = 0;
};
// Shares that were counted, not read from binades.
struct ExactShares {
  std::uint64_t underflow = 0, subnormal = 0, overflow = 0;
};
// Both, of one pass.
struct HistogramWithShares {
  ExponentHistogram histogram;
  std::vector<ExactShares> shares;  // in the order of the formats asked for
};
HistogramWithShares exponent_histogram(std::span<const float> data, std::span<const ScaledFormat> formats, int threads = 0);

}  // namespace narrow
