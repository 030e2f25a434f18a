// Runs one instruction on tiles of codes that lie on the device. Each family of instructions is a translation unit.
#pragma once

#include <cstdint>

#include "narrow/golden/instruction.hpp"

struct CUstream_st;

namespace narrow::detail {

// Tiles one after another: a[64][k], b[columns][k], c and d[64][columns], each element of its own size.
struct TileArrays {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
  std::uint64_t first_tile = 0, tiles = 0;
};

// false: the instruction is of another family.
bool run_mma_float(const Instruction&, const TileArrays&, CUstream_st* stream);
bool run_mma_fp8(const Instruction&, const TileArrays&, CUstream_st* stream);
bool run_mma_other(const Instruction&, const TileArrays&, CUstream_st* stream);  // f64 and integers
bool run_mma_sparse(const Instruction&, const TileArrays&, CUstream_st* stream);
bool run_wgmma_float(const Instruction&, const TileArrays&, CUstream_st* stream);
bool run_wgmma_fp8(const Instruction&, const TileArrays&, CUstream_st* stream);
bool run_wgmma_fp8_half(const Instruction&, const TileArrays&, CUstream_st* stream);
bool run_wgmma_sparse(const Instruction&, const TileArrays&, CUstream_st* stream);
bool run_wgmma_integer(const Instruction&, const TileArrays&, CUstream_st* stream);

}  // namespace narrow::detail
