// The plans that kernels use, for a K: what kernel forensics tries.
#pragma once

#include <vector>

#include "narrow/dot/plan.hpp"

namespace narrow::detail {

// The likeliest first: chain, promote, K in equal parts of whole tiles (few parts first), then the rarer joins, slices and
// residues, then every other length that is a multiple of 16; each plan once. Operands are rounded only in models of tf32,
// in three ways each.
std::vector<Plan> plan_ladder(std::size_t k, bool rounds_operands, bool has_c = false);

}  // namespace narrow::detail
