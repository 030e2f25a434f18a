// mma.sp on tiles; see sparse.cuh.
#include "narrow/cuda/mma.cuh"
#include "narrow/cuda/sparse.cuh"

namespace narrow::detail {

namespace {

template <class Mma, int Sm>
__global__ void __launch_bounds__(128) run_sparse(TileArrays tiles) {
  constexpr int a_count = Mma::row_bytes / 8, b_count = Mma::row_bytes / 8, full_bytes = 2 * Mma::row_bytes;
  constexpr int c_count = Mma::half_result ? 2 : 4, c_bytes = Mma::half_result ? 2 : 4, columns = 64;
  __shared__ __align__(16) unsigned char b_full[columns][full_bytes];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const std::size_t tile = blockIdx.x;
  const auto* a_tile = static_cast<const unsigned char*>(tiles.a) + tile * tile_rows * Mma::row_bytes;
  const auto* b_tile = static_cast<const unsigned char*>(tiles.b) + tile * columns * Mma::row_bytes;
  const auto* c_tile = static_cast<const unsigned char*>(tiles.c) + tile * tile_rows * columns * c_bytes;
  auto* d_tile = static_cast<unsigned char*>(tiles.d) + tile * tile_rows * columns * c_bytes;
  const unsigned pattern = pattern_of(Mma::element_bytes == 4, tiles.first_tile + tile);
  if (threadIdx.x < columns)
    expand_row<Mma::element_bytes>(b_full[threadIdx.x], b_tile + threadIdx.x * Mma::row_bytes, Mma::row_bytes, pattern, (tiles.first_tile + tile) * 64 + threadIdx.x);
  __syncthreads();
  const unsigned metadata = pattern * 0x11111111u;
  unsigned a[a_count];
  for (int r = 0; r < a_count; ++r)
    a[r] = *reinterpret_cast<const unsigned*>(a_tile + (16 * warp + g + 8 * (r % 2)) * Mma::row_bytes + 4 * t + 16 * (r / 2));
  for (int n = 0; n < columns; n += 8) {
    unsigned b[b_count], c[c_count], d[c_count];
    for (int r = 0; r < b_count; ++r) b[r] = *reinterpret_cast<const unsigned*>(&b_full[n + g][4 * t + 16 * r]);
    const auto place = [&](int r) {
      const int row = 16 * warp + g + 8 * (Mma::half_result ? r : r / 2), column = n + 2 * t + (Mma::half_result ? 0 : r % 2);
      return (row * columns + column) * c_bytes;
    };
    for (int r = 0; r < c_count; ++r) c[r] = *reinterpret_cast<const unsigned*>(c_tile + place(r));
    if constexpr (NARROW_SM >= Sm) Mma::apply(d, a, b, c, metadata);
    else __trap();
    for (int r = 0; r < c_count; ++r) *reinterpret_cast<unsigned*>(d_tile + place(r)) = d[r];
  }
}

// 32 bytes of A kept (64 of B), or 16 (32 of B).
#define NARROW_SPARSE_32(NAME, BYTES, TEXT)                                                                              \
  struct NAME {                                                                                                          \
    static constexpr int row_bytes = 32, element_bytes = BYTES;                                                          \
    static constexpr bool half_result = false;                                                                           \
    __device__ static void apply(unsigned (&d)[4], const unsigned (&a)[4], const unsigned (&b)[4], const unsigned (&c)[4], unsigned e) { \
      asm volatile(TEXT " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9,%10,%11}, {%12,%13,%14,%15}, %16, 0x0;"                   \
                   : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                                      \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(c[0]),  \
                     "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(e));                                                           \
    }                                                                                                                    \
  };
#define NARROW_SPARSE_16(NAME, BYTES, TEXT)                                                                              \
  struct NAME {                                                                                                          \
    static constexpr int row_bytes = 16, element_bytes = BYTES;                                                          \
    static constexpr bool half_result = false;                                                                           \
    __device__ static void apply(unsigned (&d)[4], const unsigned (&a)[2], const unsigned (&b)[2], const unsigned (&c)[4], unsigned e) { \
      asm volatile(TEXT " {%0,%1,%2,%3}, {%4,%5}, {%6,%7}, {%8,%9,%10,%11}, %12, 0x0;"                                   \
                   : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                                      \
                   : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(e));    \
    }                                                                                                                    \
  };
#define NARROW_SPARSE_32_HALF(NAME, BYTES, TEXT)                                                                         \
  struct NAME {                                                                                                          \
    static constexpr int row_bytes = 32, element_bytes = BYTES;                                                          \
    static constexpr bool half_result = true;                                                                            \
    __device__ static void apply(unsigned (&d)[2], const unsigned (&a)[4], const unsigned (&b)[4], const unsigned (&c)[2], unsigned e) { \
      asm volatile(TEXT " {%0,%1}, {%2,%3,%4,%5}, {%6,%7,%8,%9}, {%10,%11}, %12, 0x0;"                                   \
                   : "=r"(d[0]), "=r"(d[1])                                                                              \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(c[0]),  \
                     "r"(c[1]), "r"(e));                                                                                 \
    }                                                                                                                    \
  };

#define NARROW_MMA_SP "mma.sp::ordered_metadata.sync.aligned."
NARROW_SPARSE_32(F32F16K32, 2, NARROW_MMA_SP "m16n8k32.row.col.f32.f16.f16.f32")
NARROW_SPARSE_16(F32F16K16, 2, NARROW_MMA_SP "m16n8k16.row.col.f32.f16.f16.f32")
NARROW_SPARSE_32_HALF(F16F16K32, 2, NARROW_MMA_SP "m16n8k32.row.col.f16.f16.f16.f16")
NARROW_SPARSE_32(F32Bf16K32, 2, NARROW_MMA_SP "m16n8k32.row.col.f32.bf16.bf16.f32")
NARROW_SPARSE_16(F32Bf16K16, 2, NARROW_MMA_SP "m16n8k16.row.col.f32.bf16.bf16.f32")
NARROW_SPARSE_32(F32Tf32K16, 4, NARROW_MMA_SP "m16n8k16.row.col.f32.tf32.tf32.f32")
NARROW_SPARSE_16(F32Tf32K8, 4, NARROW_MMA_SP "m16n8k8.row.col.f32.tf32.tf32.f32")
NARROW_SPARSE_32(F32E4m3K64, 1, NARROW_MMA_SP "m16n8k64.row.col.f32.e4m3.e4m3.f32")
NARROW_SPARSE_32(F32E5m2K64, 1, NARROW_MMA_SP "m16n8k64.row.col.f32.e5m2.e5m2.f32")
NARROW_SPARSE_32(S32S8K64, 1, NARROW_MMA_SP "m16n8k64.row.col.s32.s8.s8.s32")
NARROW_SPARSE_16(S32S8K32, 1, NARROW_MMA_SP "m16n8k32.row.col.s32.s8.s8.s32")

template <class Mma, int Sm = 80>
bool launch_sparse(const TileArrays& tiles, cudaStream_t stream) {
  run_sparse<Mma, Sm><<<static_cast<unsigned>(tiles.tiles), 128, 0, stream>>>(tiles);
  require_launch("mma.sp");
  return true;
}

}  // namespace

bool run_mma_sparse(const Instruction& i, const TileArrays& tiles, cudaStream_t stream) {
  using enum TileElement;
  if (i.unit != TileUnit::mma || !i.sparse) return false;
  if (i.a == f16 && i.accumulator == f16) return launch_sparse<F16F16K32>(tiles, stream);
  if (i.a == f16) return i.k == 32 ? launch_sparse<F32F16K32>(tiles, stream) : launch_sparse<F32F16K16>(tiles, stream);
  if (i.a == bf16) return i.k == 32 ? launch_sparse<F32Bf16K32>(tiles, stream) : launch_sparse<F32Bf16K16>(tiles, stream);
  if (i.a == tf32) return i.k == 16 ? launch_sparse<F32Tf32K16>(tiles, stream) : launch_sparse<F32Tf32K8>(tiles, stream);
  if (i.a == e4m3) return launch_sparse<F32E4m3K64, 89>(tiles, stream);
  if (i.a == e5m2) return launch_sparse<F32E5m2K64, 89>(tiles, stream);
  return i.k == 64 ? launch_sparse<S32S8K64>(tiles, stream) : launch_sparse<S32S8K32>(tiles, stream);
}

}  // namespace narrow::detail
