// One instruction on many tiles: compared with its model, or recorded.
#pragma once

#include <vector>

#include "narrow/cuda/check.hpp"
#include "narrow/cuda/run_instruction.hpp"
#include "narrow/golden/tile_dot.hpp"

namespace narrow {

// scalar: by the scalar functions on the device instead of the fast kernel. sm: whose model.
GpuCheckResult check_instruction(const Instruction& i, std::uint64_t dots, std::uint64_t seed, bool scalar,
                                 int sm = 90);

// Whether there is a model of that GPU's generation that the device can compute.
bool can_check_instruction(const Instruction& i, int sm);

RecordedTiles record_instruction(const Instruction& i, std::uint64_t seed, std::size_t full, std::size_t tiles);
std::vector<Code> record_tile(const Instruction& i, std::uint64_t seed, std::uint64_t tile);  // in row order

}  // namespace narrow
