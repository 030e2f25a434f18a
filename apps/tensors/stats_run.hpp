// The lines of `narrow stats` for a watched run: what was counted when the values were there, or follows from it.
#pragma once

#include "options/run_choice.hpp"
#include "tensors/stats_rows.hpp"

namespace app {

// A group for each tensor: one row a format, of the values times 2^k. Throws narrow::Error where the counts do not
// tell.
std::vector<std::vector<StatsRow>> watched_rows(const ChosenRun& chosen, const std::vector<std::string>& names,
                                                const std::vector<narrow::FormatCast>& casts, int k);

}  // namespace app
