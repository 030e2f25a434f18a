// What counts of binades tell about formats and scales that were not asked for while the values were there.
#pragma once

#include <optional>

#include "narrow/tensor/watched_run.hpp"

namespace narrow {

// Of the values times 2^k, in real numbers: below the binades counts as subnormal, above them as Inf. Empty where
// subnormals would become larger: of those only the sum is known.
std::optional<ExponentHistogram> times_power_of_two(const ExponentHistogram& h, int k);

// What the format makes of the values of each binade. Where one of its thresholds cuts a binade, `counted` decides: how
// many of all values underflow, are subnormal, overflow. Empty where it is not there, or says what cannot be.
std::optional<BinadeFates> fates_of(const ExponentHistogram& h, const FormatCast& to,
                                    const WatchedCounts* counted = nullptr);

}  // namespace narrow
