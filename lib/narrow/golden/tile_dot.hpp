// The operands of one output of a tile, and what a GPU gave for whole tiles.
#pragma once

#include <vector>

#include "narrow/golden/instruction.hpp"

namespace narrow {

// The operands of one output of a tile, as the model takes them (tf32 as 19-bit codes; negation and scale-d applied).
struct TileDot {
  std::vector<Code> a, b;
  Code c;
};
TileDot tile_dot(const Instruction& i, std::uint64_t seed, std::uint64_t tile, int row, int column);

// What the instruction gave: the first results of tile 0 in row order, and a hash of each tile: the sum over its
// outputs o in row order of mix(mix(code) + o) modulo 2^64.
struct RecordedTiles {
  std::vector<Code> full;
  std::vector<std::uint64_t> hashes;
};

}  // namespace narrow
