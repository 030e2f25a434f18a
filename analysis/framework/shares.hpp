// What a format makes of a histogram of binades, as shares of the values that are not zero.
#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "narrow/array/histogram.hpp"
#include "narrow/report/plot.hpp"
#include "narrow/report/table.hpp"

namespace analysis {

inline constexpr double fp16_overflows_from = 65520;  // the middle between 65504 and 2^16 rounds to Inf

struct NamedFormat {
  std::string_view name;
  narrow::Format format;
};

struct FormatShares {
  double zero = 0, subnormal = 0, overflow = 0;
};

inline std::uint64_t nonzero_count(const narrow::ExponentHistogram& h) {
  return h.count() - h.zero.total() - h.inf.total() - h.nan.total();
}

// Binades are whole, so a threshold inside one is off by part of it. The zero threshold of a format is the power of
// two that ties to zero, which is the first value of its binade: the lower bound is exact but for that value. The
// largest subnormals round up to a normal: the upper bound counts them, about 1 in 2^(mantissa bits) of their binade.
inline FormatShares shares_of(const narrow::ExponentHistogram& h, const narrow::Format& format, int scale_log2 = 0) {
  const narrow::HistogramShares s = narrow::shares_from_histogram(h, {format, {}}, scale_log2);
  const auto all = static_cast<double>(nonzero_count(h));
  if (all == 0) return {};
  return {static_cast<double>(s.underflow.lower) / all, static_cast<double>(s.subnormal.upper) / all,
          static_cast<double>(s.overflow.lower) / all};
}

// Mean of floor(log2 |x|) over the normal FP32 values; NaN where there is none.
inline double mean_binade(const narrow::ExponentHistogram& h) {
  double sum = 0, count = 0;
  for (int e = narrow::ExponentHistogram::min_exponent; e <= narrow::ExponentHistogram::max_exponent; ++e) {
    sum += e * static_cast<double>(h.binade(e).total());
    count += static_cast<double>(h.binade(e).total());
  }
  return count == 0 ? std::nan("") : sum / count;
}

// A signal to noise ratio is inf where every value comes out exactly, and undefined (NaN) where there is no signal or a
// value that was finite overflowed: then it never is the best and never a number.
inline bool is_better(double sqnr_db, double than) {
  return !std::isnan(sqnr_db) && (std::isnan(than) || sqnr_db > than);
}
inline narrow::report::Cell db_cell(double sqnr_db) { return std::isfinite(sqnr_db) ? narrow::report::Cell{sqnr_db} : narrow::report::Cell{}; }
inline std::string db_text(double sqnr_db) {
  return std::isnan(sqnr_db) ? "undefined" : std::isinf(sqnr_db) ? "no error" : narrow::report::fixed_text(sqnr_db, 1) + " dB";
}

// "a, b and c".
inline std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

// The range of a format under a histogram whose axis is the exponent: [2^e, 2^(e+1)) takes the place from e to e + 1.
inline narrow::report::Ruler ruler_of(std::string name, const narrow::Format& f) {
  using narrow::report::PlotColour;
  const double smallest = f.min_quantum_exponent(), normal = f.min_exponent();
  const double largest = f.max_exponent() + 1;
  return {std::move(name), {{smallest, normal, PlotColour::orange}, {normal, largest, PlotColour::blue}}};
}

}  // namespace analysis
