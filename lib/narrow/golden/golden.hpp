// Recordings of a GPU as text files: what an instruction gave for inputs that the generator makes again anywhere.
#pragma once

#include <string>
#include <vector>

#include "narrow/golden/tile_dot.hpp"

namespace narrow {

// Where a recording comes from. A file without it is refused: it would be no evidence.
struct GoldenOrigin {
  std::string gpu, driver, toolkit, date, command;
};

struct GoldenTiles {
  GoldenOrigin origin;
  Instruction instruction;
  std::uint64_t seed = 0;
  RecordedTiles tiles;
};

std::string write_golden_tiles(const GoldenTiles& golden);

// Throws Error that names the line and what would be right.
GoldenTiles read_golden_tiles(const std::string& text, const std::string& file);

// The sum that a recording keeps of a tile.
std::uint64_t hash_tile(const std::vector<Code>& results);

}  // namespace narrow
