#include "narrow/dot/plan_ladder.hpp"

#include <set>

namespace narrow::detail {

namespace {

// Parts of K as kernels cut it: a number of parts, each a whole number of tiles long; few parts first.
std::vector<int> usual_lengths(std::size_t k, std::size_t most_parts) {
  std::vector<int> lengths;
  std::set<std::size_t> seen;
  for (std::size_t parts = 2; parts <= most_parts; ++parts)
    for (const std::size_t tile : {64, 32, 128, 16, 256}) {
      const std::size_t length = ((k + parts - 1) / parts + tile - 1) / tile * tile;
      if (length < k && seen.insert(length).second) lengths.push_back(static_cast<int>(length));
    }
  return lengths;
}

}  // namespace

std::vector<Plan> plan_ladder(std::size_t k, bool rounds_operands, bool has_c) {
  std::vector<Plan> plans{Plan{}};
  if (has_c) plans.push_back({.c_last = true});
  for (const int length : {128, 32, 64, 256, 512})
    if (static_cast<std::size_t>(length) < k || length == 128) plans.push_back({.order = SumOrder::promote, .length = length});
  const std::vector<int> usual = usual_lengths(k, 16);
  for (const int length : usual) plans.push_back({.order = SumOrder::split, .length = length});
  for (const int residue : {16, 32, 64, 128})
    if (k % static_cast<std::size_t>(residue) != 0) plans.push_back({.residue = residue});
  for (const int length : usual) {
    for (const Join join : {Join::pairwise, Join::reversed})
      plans.push_back({.order = SumOrder::split, .length = length, .join = join});
    plans.push_back({.order = SumOrder::split, .length = length, .join_in_output = true});
  }
  for (const int slices : {2, 4, 8})
    for (const int run : {8, 16, 32, 64, 128})
      if (static_cast<std::size_t>(run) < k) plans.push_back({.order = SumOrder::slice, .length = slices, .run = run});
  for (int parts = 2; parts <= 8; ++parts)
    for (const int run : {32, 64, 0}) {  // where the runs divide it is a split
      const std::size_t length = run == 0 ? 16 : static_cast<std::size_t>(run), runs = (k + length - 1) / length;
      if (runs % static_cast<std::size_t>(parts) == 0 || runs < static_cast<std::size_t>(parts)) continue;
      for (const Join join : {Join::in_order, Join::reversed})
        plans.push_back({.order = SumOrder::even, .length = parts, .join = join, .run = run});
    }
  std::set<int> lengths(usual.begin(), usual.end());
  const auto add_length = [&](int length) {
    if (static_cast<std::size_t>(length) < k && lengths.insert(length).second) plans.push_back({.order = SumOrder::split, .length = length});
  };
  for (const int length : usual_lengths(k, k / 16 + 1)) add_length(length);
  for (int length = 16; static_cast<std::size_t>(length) < k; length += 16) add_length(length);
  if (!rounds_operands) return plans;
  std::vector<Plan> all;
  for (Plan plan : plans)
    for (const Operands operands : {Operands::nearest_even, Operands::cut, Operands::nearest_away}) {
      plan.operands = operands;
      all.push_back(plan);
    }
  return all;
}

}  // namespace narrow::detail
