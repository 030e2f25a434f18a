// The way of a loss scale over a run, told as a story: which steps overflowed and why, what the rule then did.
#pragma once

#include <string>

#include "narrow/scale/trace.hpp"

namespace app {

std::string explain_scaler(const narrow::NamedScaler& policy, const narrow::Trace& trace,
                           const narrow::OverflowModel& log, bool colour);

}  // namespace app
