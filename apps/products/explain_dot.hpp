// A traced dot product in words: what was aligned to what, who lost bits and how many, and where the error comes from.
#pragma once

#include <string>

#include "narrow/dot/dot_trace.hpp"

namespace app {

std::string explain_dot(const narrow::DotModel& model, const narrow::DotTrace& trace, bool colour);

}  // namespace app
