// What a format does to data, counted in one pass for any number of formats: lost, subnormal, overflowed, and the error.
//
//   const std::vector<float> gradients = {1e-8F, -3e-6F, 2e-4F};
//   const std::vector<FormatCast> formats = {{"fp16"_fmt, {}}, {"e5m2"_fmt, {}}};
//   const Statistics s = statistics(gradients, formats, /*scale=*/1024);
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "narrow/round/round_to.hpp"

namespace narrow {

// A format and how it is reached.
struct FormatCast {
  Format format;
  Cast cast = {};
};

// A share of the elements, with both denominators, because "percent" alone has been read both ways.
struct Share {
  double of_all = 0;
  double of_nonzero = 0;
};

// The data itself, unscaled. Sums and extremes are over the finite elements.
struct InputStatistics {
  std::uint64_t count = 0, zeros = 0, nan = 0, inf = 0;
  double amax = 0;
  double min_nonzero = 0;  // 0 when there is no non-zero finite element
  double sum = 0;

  std::uint64_t finite() const { return count - nan - inf; }
  double mean() const { return finite() == 0 ? 0 : sum / static_cast<double>(finite()); }
  Share share(std::uint64_t part) const;
};

// The data times the scale (one multiplication in the carrier), cast to a format. Errors are in unscaled units, over
// the elements that are finite before and after; as figures (mse, sqnr_db, relative_error) they are undefined, NaN,
// once an element that was finite overflowed, saturated or not, or became NaN: what overflows would leave both sums,
// and the error of the rest would pass for that of the whole. The clamp of a block format is a part of its rounding: it
// counts as overflow, and its error as an error.
struct FormatStatistics {
  std::uint64_t underflow = 0;  // not zero before, zero after
  std::uint64_t subnormal = 0;  // lands in the subnormals
  std::uint64_t overflow = 0;   // finite before, beyond the largest finite value after rounding
  std::uint64_t saturated = 0;  // of these: became the largest finite value
  std::uint64_t clamped = 0;    // of these: by a block format
  std::uint64_t not_finite = 0;  // finite before, Inf or NaN after
  std::uint64_t compared = 0;    // finite before and after
  double squared_error = 0;     // sum over the compared
  double signal = 0;            // sum of squares of the compared, before
  double max_relative_error = 0;  // over the compared that are not zero, to the precision of a float

  bool has_error() const { return compared != 0 && overflow == clamped && not_finite == 0; }  // the figures are defined
  double mse() const;
  double sqnr_db() const;  // 10 log10(signal / squared_error); inf without error, nan without signal
  double relative_error() const;
  // For studies of clipping: saturated elements count with their finite error, only Inf and NaN make it undefined.
  double clipped_sqnr_db() const;
};

// What was asked of the data: the input once, and a row for each format.
struct Statistics {
  InputStatistics input;
  std::vector<FormatStatistics> formats;
  double scale = 1;

  // Adds the statistics of the data that follows. Sums are rounded, so their last bits depend on the order of merging.
  void merge(const Statistics& next);
};

// One pass over the data for all formats, in blocks of fixed size: the same for any number of threads.
Statistics statistics(std::span<const float> data, std::span<const FormatCast> formats, double scale = 1,
                      std::uint64_t seed = 0, int threads = 0);
Statistics statistics(std::span<const double> data, std::span<const FormatCast> formats, double scale = 1,
                      std::uint64_t seed = 0, int threads = 0);

// The same request for many pieces of float data: what it needs to know of the formats is computed once.
class StatisticsPass {
 public:
  explicit StatisticsPass(std::span<const FormatCast> formats, double scale = 1, std::uint64_t seed = 0);
  ~StatisticsPass();
  StatisticsPass(const StatisticsPass&) = delete;
  StatisticsPass& operator=(const StatisticsPass&) = delete;

  // first: the index of data[0] in the whole, for stochastic casts.
  Statistics operator()(std::span<const float> data, std::size_t first = 0, int threads = 0) const;
  // The same added to what is there. Pieces that start at multiples of 65536 and are added in order to an empty
  // Statistics give the bits of one call with the whole.
  void add(Statistics& total, std::span<const float> data, std::size_t first = 0, int threads = 0) const;
  // What add() merges one after the other: a Statistics for each 65536 values.
  std::vector<Statistics> parts(std::span<const float> data, std::size_t first = 0, int threads = 0) const;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace narrow
