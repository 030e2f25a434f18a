// mma.sync with fp16, bf16 and tf32 operands.
#include "narrow/cuda/mma.cuh"

namespace narrow::detail {

namespace {

NARROW_MMA_32_4(F32F16K16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
NARROW_MMA_16_4(F32F16K8, "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32")
NARROW_MMA_32_2(F16F16K16, "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16")
NARROW_MMA_16_2(F16F16K8, "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16")
NARROW_MMA_32_4(F32Bf16K16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
NARROW_MMA_16_4(F32Bf16K8, "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32")
NARROW_MMA_32_4(F32Tf32K8, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
NARROW_MMA_16_4(F32Tf32K4, "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32")

}  // namespace

bool run_mma_float(const Instruction& i, const TileArrays& tiles, cudaStream_t stream) {
  using enum TileElement;
  if (i.unit != TileUnit::mma || i.sparse) return false;
  if (i.a == f16 && i.accumulator == f32)
    return i.k == 16 ? launch_mma<F32F16K16>(tiles, stream) : launch_mma<F32F16K8>(tiles, stream);
  if (i.a == f16) return i.k == 16 ? launch_mma<F16F16K16>(tiles, stream) : launch_mma<F16F16K8>(tiles, stream);
  if (i.a == bf16) return i.k == 16 ? launch_mma<F32Bf16K16>(tiles, stream) : launch_mma<F32Bf16K8>(tiles, stream);
  if (i.a == tf32) return i.k == 8 ? launch_mma<F32Tf32K8>(tiles, stream) : launch_mma<F32Tf32K4>(tiles, stream);
  return false;
}

}  // namespace narrow::detail
