// What FP8 loses of the tensors of a watched run under each kind of scale: the answer of fp8_scaling run=.
#pragma once

#include <string>

#include "analysis/framework/experiment.hpp"

namespace analysis::of_fp8_scaling {

Outcome fp8_of_run(const std::string& folder);

}  // namespace analysis::of_fp8_scaling
