// What one GPU said in two minutes, as one text file that anyone can contribute and replay without that GPU.
#pragma once

#include <string>
#include <vector>

#include "narrow/dot/model.hpp"
#include "narrow/golden/tile_dot.hpp"

namespace narrow {

struct SharedConversion {
  std::string name, unit;
  std::uint64_t count = 0, mismatches = 0, hash = 0;  // hash as in data/golden/conversions.tsv
};

struct SharedDot {
  TileDot in;
  Code d = 0;
};

struct SharedInstruction {
  Instruction instruction;
  std::uint64_t compared = 0, mismatches = 0;  // compared is 0 where no model of that GPU is known
  std::vector<std::uint64_t> hashes;           // of tiles 0, 1, ...: one of each family of inputs
  std::vector<SharedDot> dots;                 // inputs and result in full
};

struct ShareFile {
  std::string gpu, driver, toolkit, cublas, version, date;
  int sm = 0;
  std::uint64_t seed = 0;
  std::vector<SharedConversion> conversions;
  std::vector<SharedInstruction> instructions;

  std::string file_name() const;  // narrow-share-nvidia-h200-sm90.txt
};

// Which output of which tile is dot n of a shared instruction.
struct SharedPlace {
  std::uint64_t tile;
  int row, column;
};
SharedPlace shared_place(const Instruction& i, std::size_t n);
inline constexpr std::size_t shared_dots = 4, shared_tiles = tile_families;

std::string write_share(const ShareFile& file);
ShareFile read_share(const std::string& text, const std::string& file);  // throws Error that names the line

// The emulator against the file: dots in full, hashes of the first `tiles` tiles (of 64 columns: wide ones have four
// times the work), and what the file itself counted as mismatches.
struct ShareReplay {
  std::uint64_t dots = 0, tiles = 0, without_model = 0;
  std::uint64_t recorded_tiles = 0;  // of which `tiles` were computed again
  std::vector<std::string> wrong;  // one line each
};
ShareReplay replay_share(const ShareFile& file, std::size_t tiles);

// One output by the model, as recordings keep it: doubles have one NaN.
Code emulated_code(const DotModel& model, const TileDot& in);

}  // namespace narrow
