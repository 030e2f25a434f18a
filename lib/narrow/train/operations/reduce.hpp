// Gradients of several ranks become one: the sum over ranks in a chosen format and order, as data parallel training
// does.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "narrow/train/policy/policy.hpp"
#include "narrow/train/policy/settings.hpp"

namespace narrow::train {

// The mean over ranks: each gradient is divided by their number (as torch's DistributedDataParallel does before it
// sends) and rounded to the format, then every sum is. One rank: as it is. All arrays are of one length.
std::vector<float> all_reduce(std::vector<std::vector<float>> ranks, const Precision& precision, ReduceOrder order,
                              std::uint64_t seed, int threads = 0);

}  // namespace narrow::train
