// Queries and keys of a given size: do their scores overflow FP16, and at which size would they?
#pragma once

#include "analysis/framework/experiment.hpp"

namespace analysis {

// The answer of attention_overflow to d=, n= and sigma=, in closed form and measured on normal numbers.
Outcome attention_size(const Parameters& parameters, Progress& progress);

}  // namespace analysis
