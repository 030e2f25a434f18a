// mma.sync with FP8 operands: on sm_90 a sequence of fp16 instructions that the assembler writes.
#include "narrow/cuda/mma.cuh"

namespace narrow::detail {

namespace {

#define NARROW_MMA_FP8(A, B)                                                                                    \
  NARROW_MMA_32_4(F32##A##B##K32, "mma.sync.aligned.m16n8k32.row.col.f32." #A "." #B ".f32")                    \
  NARROW_MMA_16_4(F32##A##B##K16, "mma.sync.aligned.m16n8k16.row.col.f32." #A "." #B ".f32")                    \
  NARROW_MMA_32_2(F16##A##B##K32, "mma.sync.aligned.m16n8k32.row.col.f16." #A "." #B ".f16")                    \
  NARROW_MMA_16_2(F16##A##B##K16, "mma.sync.aligned.m16n8k16.row.col.f16." #A "." #B ".f16")                    \
  bool run_##A##B(const Instruction& i, const TileArrays& tiles, cudaStream_t stream) {                         \
    if (i.accumulator == TileElement::f32)                                                                      \
      return i.k == 32 ? launch_mma<F32##A##B##K32, 89>(tiles, stream) : launch_mma<F32##A##B##K16, 89>(tiles, stream); \
    return i.k == 32 ? launch_mma<F16##A##B##K32, 89>(tiles, stream) : launch_mma<F16##A##B##K16, 89>(tiles, stream);   \
  }

NARROW_MMA_FP8(e4m3, e4m3)
NARROW_MMA_FP8(e4m3, e5m2)
NARROW_MMA_FP8(e5m2, e4m3)
NARROW_MMA_FP8(e5m2, e5m2)

}  // namespace

bool run_mma_fp8(const Instruction& i, const TileArrays& tiles, cudaStream_t stream) {
  using enum TileElement;
  if (i.unit != TileUnit::mma || i.sparse) return false;
  if (i.a == e4m3 && i.b == e4m3) return run_e4m3e4m3(i, tiles, stream);
  if (i.a == e4m3 && i.b == e5m2) return run_e4m3e5m2(i, tiles, stream);
  if (i.a == e5m2 && i.b == e4m3) return run_e5m2e4m3(i, tiles, stream);
  if (i.a == e5m2 && i.b == e5m2) return run_e5m2e5m2(i, tiles, stream);
  return false;
}

}  // namespace narrow::detail
