// What an all-reduce lost: its result against the exact sum or mean, element by element.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "narrow/cluster/exact_sum.hpp"
#include "narrow/cluster/reduce.hpp"

namespace narrow::cluster {

// The exact sums of all elements; of one rank they are its array.
std::vector<ExactSum> exact_sums(std::size_t ranks, std::size_t size, const ReadRanks& read, int threads = 0);

// Over the elements whose exact sum is finite.
struct ReduceError {
  std::uint64_t elements = 0, special = 0;  // special: the exact sum is Inf or NaN, so that nothing is measured
  std::uint64_t overflow = 0;               // became Inf or NaN
  // NaN where an element overflowed, and where there is none.
  double mean_square = std::numeric_limits<double>::quiet_NaN();
  double signal = std::numeric_limits<double>::quiet_NaN();  // mean square of the exact sums
  // Against the exact sum rounded once to the format: how many differ, and how far where neither is NaN.
  std::uint64_t not_nearest = 0, max_ulp = 0;

  double sqnr_db() const;  // Inf without an error; NaN where one of the two is
};

// exact / divisor against got. format: of the distances; none: they are not counted.
ReduceError reduce_error(std::span<const ExactSum> exact, std::uint32_t divisor, std::span<const double> got,
                         const std::optional<Format>& format, int threads = 0);

}  // namespace narrow::cluster
