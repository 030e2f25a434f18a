// One instruction on many tiles: compared with its model, or recorded.
#pragma once

#include <vector>

#include "narrow/cuda/check.hpp"
#include "narrow/cuda/run_instruction.hpp"

namespace narrow {

// The operands of one output of a tile, as the model takes them (tf32 as 19-bit codes; negation and scale-d applied).
struct TileDot {
  std::vector<Code> a, b;
  Code c;
};
TileDot tile_dot(const Instruction& i, std::uint64_t seed, std::uint64_t tile, int row, int column);

// scalar: by the scalar functions on the device instead of the fast kernel. sm: whose model.
GpuCheckResult check_instruction(const Instruction& i, std::uint64_t dots, std::uint64_t seed, bool scalar,
                                 int sm = 90);

// Whether there is a model of that GPU's generation that the device can compute.
bool can_check_instruction(const Instruction& i, int sm);

// What the instruction gave: the first results of tile 0 in row order, and a hash of each tile: the sum over its
// outputs o in row order of mix(mix(code) + o) modulo 2^64.
struct RecordedTiles {
  std::vector<Code> full;
  std::vector<std::uint64_t> hashes;
};
RecordedTiles record_instruction(const Instruction& i, std::uint64_t seed, std::size_t full, std::size_t tiles);
std::vector<Code> record_tile(const Instruction& i, std::uint64_t seed, std::uint64_t tile);  // in row order

}  // namespace narrow
