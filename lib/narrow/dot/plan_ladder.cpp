#include "narrow/dot/plan_ladder.hpp"

#include <algorithm>

namespace narrow::detail {

namespace {

void add_once(std::vector<Plan>& plans, const Plan& plan) {
  if (std::find(plans.begin(), plans.end(), plan) == plans.end()) plans.push_back(plan);
}

// Parts of K as kernels cut it: a number of parts, each a whole number of tiles long.
std::vector<int> usual_lengths(std::size_t k) {
  std::vector<int> lengths;
  for (std::size_t parts = 2; parts <= 16; ++parts)
    for (const std::size_t tile : {32, 64, 128}) {
      const std::size_t length = ((k + parts - 1) / parts + tile - 1) / tile * tile;
      if (length < k) lengths.push_back(static_cast<int>(length));
    }
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return lengths;
}

}  // namespace

std::vector<Plan> plan_ladder(std::size_t k, bool rounds_operands) {
  std::vector<Plan> plans{Plan{}, Plan{.order = SumOrder::promote, .length = 128}};
  for (const int length : {32, 64, 256, 512})
    if (static_cast<std::size_t>(length) < k) plans.push_back({.order = SumOrder::promote, .length = length});
  for (std::size_t length = 16; length < k; length += 16)
    plans.push_back({.order = SumOrder::split, .length = static_cast<int>(length)});
  for (const int length : usual_lengths(k)) {
    add_once(plans, {.order = SumOrder::split, .length = length});
    for (const Join join : {Join::pairwise, Join::reversed})
      plans.push_back({.order = SumOrder::split, .length = length, .join = join});
    plans.push_back({.order = SumOrder::split, .length = length, .join_in_output = true});
  }
  for (const int slices : {2, 4, 8})
    for (const int run : {8, 16, 32, 64, 128})
      if (static_cast<std::size_t>(run) < k) plans.push_back({.order = SumOrder::slice, .length = slices, .run = run});
  for (int parts = 2; parts <= 8; ++parts)
    for (const int run : {32, 64}) {  // where the runs divide it is a split
      const std::size_t runs = (k + static_cast<std::size_t>(run) - 1) / static_cast<std::size_t>(run);
      if (runs % static_cast<std::size_t>(parts) == 0 || runs < static_cast<std::size_t>(parts)) continue;
      for (const Join join : {Join::in_order, Join::reversed})
        plans.push_back({.order = SumOrder::even, .length = parts, .join = join, .run = run});
    }
  for (const int residue : {16, 32, 64, 128})
    if (k % static_cast<std::size_t>(residue) != 0) plans.push_back({.residue = residue});
  if (!rounds_operands) return plans;
  std::vector<Plan> all;
  for (const Operands operands : {Operands::cut, Operands::nearest_even, Operands::nearest_away})
    for (Plan plan : plans) {
      plan.operands = operands;
      all.push_back(plan);
    }
  return all;
}

}  // namespace narrow::detail
