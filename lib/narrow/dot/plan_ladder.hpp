// The plans that kernels use, for a K: what kernel forensics tries.
#pragma once

#include <vector>

#include "narrow/dot/plan.hpp"

namespace narrow::detail {

// chain first, then promote, then splits by length, then the rarer joins and slices; each plan once. Operands are rounded
// only in models of tf32, in three ways each.
std::vector<Plan> plan_ladder(std::size_t k, bool rounds_operands);

}  // namespace narrow::detail
