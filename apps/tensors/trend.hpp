// Dumps of one training run by step: how each tensor changes, and the first step at which something breaks.
#pragma once

#include <string>
#include <vector>

#include "tensors/stats_rows.hpp"

namespace app {

// Rows of all steps, ascending. Sets `breaks` by the rules for runs without --fail-if. A row breaks where
//   NaN or Inf are in the data, or
//   values overflow in the format (what a block format clamps is rounded, not lost), or
//   the share that underflows is at least twice that of the first step and one in a hundred more of all values.
void find_breaks(std::vector<StatsRow>& rows);

// One line a tensor and format, those that break first on top; then one sentence: the first break, or that there is
// none.
std::string trend_text(const std::vector<StatsRow>& rows, bool colour);

}  // namespace app
