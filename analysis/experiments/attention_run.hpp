// The attention scores of a watched run against the ranges of FP16 and BF16: the answer of attention_overflow run=.
#pragma once

#include <string>

#include "analysis/framework/experiment.hpp"

namespace analysis::of_attention_overflow {

Outcome attention_of_run(const std::string& folder);

}  // namespace analysis::of_attention_overflow
