// wgmma with bytes as integers.
#include "narrow/cuda/wgmma.cuh"

namespace narrow::detail {

namespace {

NARROW_WGMMA_INTEGER(S8S8, "s32.s8.s8")
NARROW_WGMMA_INTEGER(S8U8, "s32.s8.u8")
NARROW_WGMMA_INTEGER(U8S8, "s32.u8.s8")
NARROW_WGMMA_INTEGER(U8U8, "s32.u8.u8")
NARROW_WGMMA_SATURATING(S8S8Sat, "satfinite.s32.s8.s8")
NARROW_WGMMA_SATURATING(S8U8Sat, "satfinite.s32.s8.u8")
NARROW_WGMMA_SATURATING(U8S8Sat, "satfinite.s32.u8.s8")
NARROW_WGMMA_SATURATING(U8U8Sat, "satfinite.s32.u8.u8")

template <class Wgmma>
bool launch_saturating(const Instruction& i, const TileArrays& tiles, cudaStream_t stream) {
  run_wgmma<Wgmma, 64, false, false><<<static_cast<unsigned>(tiles.tiles), 128, 0, stream>>>(tiles, i);
  require_launch("wgmma");
  return true;
}

}  // namespace

bool run_wgmma_integer(const Instruction& i, const TileArrays& tiles, cudaStream_t stream) {
  using enum TileElement;
  if (i.unit != TileUnit::wgmma || i.sparse) return false;
  if (i.saturate) {
    if (i.a == s8) return i.b == s8 ? launch_saturating<S8S8Sat>(i, tiles, stream) : launch_saturating<S8U8Sat>(i, tiles, stream);
    return i.b == s8 ? launch_saturating<U8S8Sat>(i, tiles, stream) : launch_saturating<U8U8Sat>(i, tiles, stream);
  }
  if (i.a == s8 && i.b == s8) return launch_wgmma<S8S8, false>(i, tiles, stream);
  if (i.a == s8 && i.b == u8) return launch_wgmma<S8U8, false>(i, tiles, stream);
  if (i.a == u8 && i.b == s8) return launch_wgmma<U8S8, false>(i, tiles, stream);
  if (i.a == u8 && i.b == u8) return launch_wgmma<U8U8, false>(i, tiles, stream);
  return false;
}

}  // namespace narrow::detail
