// What a model does, in words and in one worked example.
#pragma once

#include <string>

#include "narrow/dot/dot_trace.hpp"

namespace app {

std::string rule_sentence(const narrow::DotModel& model);  // one line: how products and c become the result
std::string result_text(const narrow::DotModel& model);    // "RZ to 13 bits": as in the table
std::string model_explained(const narrow::DotModel& model, bool colour);

// Operands small enough to read in which something is cut, where the formats allow that.
narrow::DotOperands example_operands(const narrow::DotModel& model);

}  // namespace app
