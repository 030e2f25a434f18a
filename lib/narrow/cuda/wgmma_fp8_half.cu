// wgmma with FP8 operands and an fp16 accumulator.
#include "narrow/cuda/wgmma.cuh"

namespace narrow::detail {

namespace {

NARROW_WGMMA_OTHER(E4m3E4m3, true, "k32", "f16.e4m3.e4m3", 2, 16, 64)
NARROW_WGMMA_OTHER(E4m3E5m2, true, "k32", "f16.e4m3.e5m2", 2, 16, 64)
NARROW_WGMMA_OTHER(E5m2E4m3, true, "k32", "f16.e5m2.e4m3", 2, 16, 64)
NARROW_WGMMA_OTHER(E5m2E5m2, true, "k32", "f16.e5m2.e5m2", 2, 16, 64)

}  // namespace

bool run_wgmma_fp8_half(const Instruction& i, const TileArrays& tiles, cudaStream_t stream) {
  using enum TileElement;
  if (i.unit != TileUnit::wgmma || i.sparse || i.accumulator != f16) return false;
  if (i.a == e4m3 && i.b == e4m3) return launch_wgmma<E4m3E4m3>(i, tiles, stream);
  if (i.a == e4m3 && i.b == e5m2) return launch_wgmma<E4m3E5m2>(i, tiles, stream);
  if (i.a == e5m2 && i.b == e4m3) return launch_wgmma<E5m2E4m3>(i, tiles, stream);
  if (i.a == e5m2 && i.b == e5m2) return launch_wgmma<E5m2E5m2>(i, tiles, stream);
  return false;
}

}  // namespace narrow::detail
