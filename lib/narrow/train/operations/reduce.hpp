// Gradients of several ranks become one: the sum over ranks in a chosen format and order, as data parallel training
// does.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "narrow/train/policy/policy.hpp"

namespace narrow::train {

enum class ReduceOrder : std::uint8_t {
  ring,  // the array in N pieces; piece c starts at rank c + 1 and travels once around, each rank adding its own
  tree   // pairs of ranks, then pairs of pairs: ((0 + 1) + (2 + 3)) + ...
};
inline constexpr std::array<std::string_view, 2> reduce_order_names = {"ring", "tree"};
constexpr std::string_view name_of(ReduceOrder o) noexcept { return reduce_order_names[static_cast<std::size_t>(o)]; }

// The mean over ranks: each gradient is divided by their number (as torch's DistributedDataParallel does before it
// sends) and rounded to the format, then every sum is. One rank: as it is. All arrays are of one length.
std::vector<float> all_reduce(std::vector<std::vector<float>> ranks, const Precision& precision, ReduceOrder order,
                              std::uint64_t seed, int threads = 0);

}  // namespace narrow::train
