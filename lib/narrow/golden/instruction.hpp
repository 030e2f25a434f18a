// The tensor-core instructions that can be run: what PTX calls them, their types and shape, and the model that should
// reproduce them. Needs no CUDA: recordings are replayed by the same list.
#pragma once

#include <string>
#include <vector>

#include "narrow/golden/tile_inputs.hpp"

namespace narrow {

enum class TileElement : std::uint8_t { f64, f32, tf32, f16, bf16, e4m3, e5m2, s8, u8, s32 };
enum class TileUnit : std::uint8_t { mma, wgmma };

// Sparse: A, and of B what it meets, have k / 2. A tile is 64 rows by `columns` of outputs with one instruction's K;
// narrow instructions are repeated to fill it.
struct Instruction {
  TileUnit unit = TileUnit::mma;
  TileElement accumulator = TileElement::f32, a = TileElement::f16, b = TileElement::f16;
  int n = 8, k = 16;
  bool from_registers = false;  // wgmma: A in registers
  bool negate = false;          // wgmma: -A and -B by the scale immediates, in turn (tile_negates)
  bool saturate = false;        // integers
  bool sparse = false;          // 2:4 structure in A

  std::string name() const;      // mma.m16n8k16.f32.f16.f16, wgmma.m64n256k32.f32.e4m3.e5m2.rs.neg
  std::string model(int sm = 90) const;  // hopper.mma.f32.f16.f16.k16: of that GPU's generation; there may be none
  int minimum_sm() const;                // what PTX asks for
  bool runs_on(int sm) const;            // wgmma exists on sm_90 alone
  std::uint64_t number() const;  // of the name, for the generator
  int products() const { return sparse ? k / 2 : k; }  // of one output
  int columns() const { return n == 256 ? 256 : 64; }
  TileFormats formats() const;
  bool drops_addend(std::uint64_t tile) const { return unit == TileUnit::wgmma && tile_drops_addend(tile); }
};

inline constexpr int tile_rows = 64;

const char* element_name(TileElement);
Format element_format(TileElement);
int element_bytes(TileElement);
int element_low_bits(TileElement);  // 13 for tf32: a word whose low bits are ignored

// imm-scale-a and imm-scale-b of a tile of an instruction with negate.
struct TileSigns {
  bool a, b;
};
constexpr TileSigns tile_negates(const Instruction& i, std::uint64_t tile) noexcept {
  if (!i.negate) return {false, false};
  return {(tile / tile_families & 1) == 0, (tile / tile_families & 2) == 0};
}

std::vector<Instruction> all_instructions();

// ampere for 80 to 88, ada 89, hopper 90, blackwell 100 to 119, rtx-blackwell 120 and 121; empty: no generation known.
std::string sm_generation(int sm);

// Throws Error with the close names when there is none.
Instruction find_instruction(const std::string& name);

}  // namespace narrow
