// Per-step logs of training runs, as JSON or CSV, read with the line and column of whatever is wrong in them.
#pragma once

#include <string>

#include "narrow/scale/overflow_model.hpp"

namespace app {

// JSON: an array of rows, each [step, loss, scale, found_inf, ...] or {"step":, "scale":, "found_inf":, "amax":}.
// CSV: a line of names, then values; of the columns step, amax, found_inf and scale it must have amax or found_inf.
// Steps ascend; without a column of them they are counted. Throws narrow::Error: file, line, column, what would be
// right.
narrow::GradientLog read_scale_log(const std::string& path);
narrow::GradientLog parse_scale_log(const std::string& text, const std::string& name);

}  // namespace app
