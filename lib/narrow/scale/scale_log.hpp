// Per-step logs of training runs, as JSON or CSV, read with the line and column of whatever is wrong in them.
#pragma once

#include <string>

#include "narrow/scale/gradient_log.hpp"

namespace narrow {

struct ScaleLog {
  GradientLog log;
  std::string what;  // which part of the file it is, for people; empty when it is all of it
};

// JSON: rows [step, loss, scale, found_inf, ...] or {"step":, "scale":, "found_inf":, "amax":}, in an array or one a
// line; or the documents of data/torch/record_gpt.py: logs.json (a run of it, FILE:RUN, else the first) and
// histograms.json. CSV: a line of names, then values; of the columns step, amax, found_inf (or skipped) and scale it
// must have one of the last three. null in JSON and nothing in CSV: not recorded. Steps ascend; without a column of
// them they are counted. Throws Error: `name`, line, column, what would be right.
ScaleLog parse_scale_log(const std::string& text, const std::string& name, const std::string& run = "");

}  // namespace narrow
