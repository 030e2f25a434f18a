// wgmma with bytes as integers.
#include "narrow/cuda/wgmma.cuh"

namespace narrow::detail {

namespace {

NARROW_WGMMA_INTEGER(S8S8, "s32.s8.s8")
NARROW_WGMMA_INTEGER(S8U8, "s32.s8.u8")
NARROW_WGMMA_INTEGER(U8S8, "s32.u8.s8")
NARROW_WGMMA_INTEGER(U8U8, "s32.u8.u8")

}  // namespace

bool run_wgmma_integer(const Instruction& i, const TileArrays& tiles, cudaStream_t stream) {
  using enum TileElement;
  if (i.unit != TileUnit::wgmma || i.sparse) return false;
  if (i.a == s8 && i.b == s8) return launch_wgmma<S8S8, false>(i, tiles, stream);
  if (i.a == s8 && i.b == u8) return launch_wgmma<S8U8, false>(i, tiles, stream);
  if (i.a == u8 && i.b == s8) return launch_wgmma<U8S8, false>(i, tiles, stream);
  if (i.a == u8 && i.b == u8) return launch_wgmma<U8U8, false>(i, tiles, stream);
  return false;
}

}  // namespace narrow::detail
