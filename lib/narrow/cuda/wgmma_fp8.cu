// wgmma with FP8 operands and an fp32 accumulator.
#include "narrow/cuda/wgmma.cuh"

namespace narrow::detail {

namespace {

NARROW_WGMMA_OTHER(E4m3E4m3, false, "k32", "f32.e4m3.e4m3", 4, 32, 128)
NARROW_WGMMA_OTHER(E4m3E5m2, false, "k32", "f32.e4m3.e5m2", 4, 32, 128)
NARROW_WGMMA_OTHER(E5m2E4m3, false, "k32", "f32.e5m2.e4m3", 4, 32, 128)
NARROW_WGMMA_OTHER(E5m2E5m2, false, "k32", "f32.e5m2.e5m2", 4, 32, 128)

}  // namespace

bool run_wgmma_fp8(const Instruction& i, const TileArrays& tiles, cudaStream_t stream) {
  using enum TileElement;
  if (i.unit != TileUnit::wgmma || i.sparse || i.accumulator != f32) return false;
  if (i.a == e4m3 && i.b == e4m3) return launch_wgmma<E4m3E4m3>(i, tiles, stream);
  if (i.a == e4m3 && i.b == e5m2) return launch_wgmma<E4m3E5m2>(i, tiles, stream);
  if (i.a == e5m2 && i.b == e4m3) return launch_wgmma<E5m2E4m3>(i, tiles, stream);
  if (i.a == e5m2 && i.b == e5m2) return launch_wgmma<E5m2E5m2>(i, tiles, stream);
  return false;
}

}  // namespace narrow::detail
