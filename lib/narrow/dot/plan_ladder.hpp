// The plans that kernels use, for a K: what kernel forensics tries.
#pragma once

#include <vector>

#include "narrow/dot/plan.hpp"

namespace narrow::detail {

// What a ladder is for.
struct LadderRequest {
  std::size_t k = 0;
  const DotModel& model;
  bool has_c = false, has_bias = false;  // a bias is one row for all
  bool narrow_output = false;            // D has fewer bits than the accumulator
};

// The likeliest first: chain, promote, K in equal parts of whole tiles (few parts first), then of whole lines (up to 66
// parts), then the rarer joins, slices and residues, parts as the kernels of CUTLASS cut them, every other length that
// is a multiple of 16, and for sums by FMA what threads do that share a dot product; each plan once. Operands are
// rounded only in models of tf32, in three ways each.
std::vector<Plan> plan_ladder(const LadderRequest& request);

}  // namespace narrow::detail
