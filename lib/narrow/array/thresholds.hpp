// Where a cast changes what it does, as magnitude words of floats: found by asking the scalar functions.
#pragma once

#include "narrow/array/statistics.hpp"

namespace narrow::detail {

// For one sign. A non-zero magnitude word w (below Inf)
//   becomes zero            for w < zero_below
//   becomes subnormal       for zero_below <= w < normal_from
//   overflows               for w >= overflow_from
// Scaling by 2^scale_log2 is one float multiplication, which may itself lose a value or overflow.
struct Thresholds {
  std::uint32_t zero_below = 0, normal_from = 0, overflow_from = 0;
};

// Throws Error for stochastic casts: they have no thresholds.
Thresholds find_thresholds(const FormatCast& to, bool negative, int scale_log2);
// overflow_from alone: a third of the questions.
std::uint32_t find_overflow(const FormatCast& to, bool negative, int scale_log2);

}  // namespace narrow::detail
