// wgmma with fp16, bf16 and tf32 operands.
#include "narrow/cuda/wgmma.cuh"

namespace narrow::detail {

namespace {

NARROW_WGMMA_16_BIT(F32F16, false, "k16", "f32.f16.f16", 4, 32, 128)
NARROW_WGMMA_16_BIT(F16F16, true, "k16", "f16.f16.f16", 2, 16, 64)
NARROW_WGMMA_16_BIT(F32Bf16, false, "k16", "f32.bf16.bf16", 4, 32, 128)
NARROW_WGMMA_OTHER(F32Tf32, false, "k8", "f32.tf32.tf32", 4, 32, 128)

}  // namespace

bool run_wgmma_float(const Instruction& i, const TileArrays& tiles, cudaStream_t stream) {
  using enum TileElement;
  if (i.unit != TileUnit::wgmma || i.sparse) return false;
  if (i.a == f16 && i.accumulator == f32) return launch_wgmma<F32F16>(i, tiles, stream);
  if (i.a == f16) return launch_wgmma<F16F16>(i, tiles, stream);
  if (i.a == bf16) return launch_wgmma<F32Bf16>(i, tiles, stream);
  if (i.a == tf32) return launch_wgmma<F32Tf32>(i, tiles, stream);
  return false;
}

}  // namespace narrow::detail
