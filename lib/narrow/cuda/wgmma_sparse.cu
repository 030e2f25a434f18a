// wgmma.sp on tiles of 64 columns; see sparse.cuh.
#include "narrow/cuda/sparse.cuh"
#include "narrow/cuda/wgmma.cuh"

namespace narrow::detail {

namespace {

template <class Wgmma>
__global__ void __launch_bounds__(128) run_wgmma_sp(TileArrays tiles) {
#if NARROW_HAS_WGMMA
  constexpr int columns = 64, c_bytes = Wgmma::half_result ? 2 : 4, count = Wgmma::half_result ? 16 : 32, full_bytes = 2 * wgmma_row_bytes;
  __shared__ __align__(128) unsigned char shared_a[tile_rows * wgmma_row_bytes];
  __shared__ __align__(128) unsigned char shared_b[columns * full_bytes];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const std::size_t tile = blockIdx.x;
  const auto* b_tile = static_cast<const unsigned char*>(tiles.b) + tile * columns * wgmma_row_bytes;
  const auto* c_tile = static_cast<const unsigned char*>(tiles.c) + tile * tile_rows * columns * c_bytes;
  auto* d_tile = static_cast<unsigned char*>(tiles.d) + tile * tile_rows * columns * c_bytes;
  const unsigned pattern = pattern_of(Wgmma::element_bytes == 4, tiles.first_tile + tile);
  copy_to_cores(shared_a, static_cast<const unsigned char*>(tiles.a) + tile * tile_rows * wgmma_row_bytes, tile_rows);
  if (threadIdx.x < columns) {
    const int row = static_cast<int>(threadIdx.x);
    unsigned char full[full_bytes];
    expand_row<Wgmma::element_bytes>(full, b_tile + row * wgmma_row_bytes, wgmma_row_bytes, pattern, (tiles.first_tile + tile) * 64 + threadIdx.x);
    for (int x = 0; x < full_bytes; ++x) shared_b[(row / 8 * 4 + x / 16) * 128 + row % 8 * 16 + x % 16] = full[x];
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const auto place = [&](int r) {
    const int row = 16 * warp + g + 8 * (Wgmma::half_result ? r % 2 : r / 2 % 2);
    const int column = Wgmma::half_result ? r / 2 * 8 + 2 * t : r / 4 * 8 + 2 * t + r % 2;
    return (row * columns + column) * c_bytes;
  };
  unsigned d[count];
#pragma unroll
  for (int r = 0; r < count; ++r) d[r] = *reinterpret_cast<const unsigned*>(c_tile + place(r));
  Wgmma::apply(d, core_descriptor(shared_a), wide_core_descriptor(shared_b), tile_drops_addend(tiles.first_tile + tile) ? 0 : 1, pattern * 0x11111111u);
  asm volatile("wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int r = 0; r < count; ++r) asm volatile("" : "+r"(d[r])::"memory");
#pragma unroll
  for (int r = 0; r < count; ++r) *reinterpret_cast<unsigned*>(d_tile + place(r)) = d[r];
#else
  __trap();
#endif
}

#define NARROW_WGMMA_SP(NAME, R, HALF, BYTES, TYPES, IMMEDIATES)                                                            \
  struct NAME {                                                                                                           \
    static constexpr bool half_result = HALF;                                                                             \
    static constexpr int element_bytes = BYTES;                                                                           \
    __device__ static void apply(unsigned (&d)[R], unsigned long long da, unsigned long long db, int scale_d, unsigned e) { \
      asm volatile("{\n.reg .pred p;\nwgmma.fence.sync.aligned;\nsetp.ne.b32 p, " NARROW_AFTER##R##_3                      \
                   ", 0;\nwgmma.mma_async.sp.sync.aligned." TYPES " {" NARROW_D##R "}, " NARROW_AFTER##R##_0 ", "          \
                   NARROW_AFTER##R##_1 ", " NARROW_AFTER##R##_2 ", 0, p" IMMEDIATES ";\n}\n"                                \
                   : NARROW_D##R##_OPERANDS(d)                                                                            \
                   : "l"(da), "l"(db), "r"(e), "r"(scale_d));                                                             \
    }                                                                                                                     \
  };

NARROW_WGMMA_SP(F32F16, 32, false, 2, "m64n64k32.f32.f16.f16", ", 1, 1, 0, 0")
NARROW_WGMMA_SP(F16F16, 16, true, 2, "m64n64k32.f16.f16.f16", ", 1, 1, 0, 0")
NARROW_WGMMA_SP(F32Bf16, 32, false, 2, "m64n64k32.f32.bf16.bf16", ", 1, 1, 0, 0")
NARROW_WGMMA_SP(F32Tf32, 32, false, 4, "m64n64k16.f32.tf32.tf32", ", 1, 1")
NARROW_WGMMA_SP(F32E4m3, 32, false, 1, "m64n64k64.f32.e4m3.e4m3", ", 1, 1")
NARROW_WGMMA_SP(F32E5m2, 32, false, 1, "m64n64k64.f32.e5m2.e5m2", ", 1, 1")
NARROW_WGMMA_SP(S32S8, 32, false, 1, "m64n64k64.s32.s8.s8", "")

template <class Wgmma>
bool launch_wgmma_sp(const TileArrays& tiles, cudaStream_t stream) {
  run_wgmma_sp<Wgmma><<<static_cast<unsigned>(tiles.tiles), 128, 0, stream>>>(tiles);
  require_launch("wgmma.sp");
  return true;
}

}  // namespace

bool run_wgmma_sparse(const Instruction& i, const TileArrays& tiles, cudaStream_t stream) {
  using enum TileElement;
  if (i.unit != TileUnit::wgmma || !i.sparse) return false;
  if (i.a == f16 && i.accumulator == f16) return launch_wgmma_sp<F16F16>(tiles, stream);
  if (i.a == f16) return launch_wgmma_sp<F32F16>(tiles, stream);
  if (i.a == bf16) return launch_wgmma_sp<F32Bf16>(tiles, stream);
  if (i.a == tf32) return launch_wgmma_sp<F32Tf32>(tiles, stream);
  if (i.a == e4m3) return launch_wgmma_sp<F32E4m3>(tiles, stream);
  if (i.a == e5m2) return launch_wgmma_sp<F32E5m2>(tiles, stream);
  return launch_wgmma_sp<S32S8>(tiles, stream);
}

}  // namespace narrow::detail
