// mma.sync with double operands, and with bytes as integers.
#include "narrow/cuda/mma.cuh"

namespace narrow::detail {

namespace {

#define NARROW_MMA_INTEGER(A, B)                                                                                \
  NARROW_MMA_32_4(S32##A##B##K32, "mma.sync.aligned.m16n8k32.row.col.s32." #A "." #B ".s32")                    \
  NARROW_MMA_16_4(S32##A##B##K16, "mma.sync.aligned.m16n8k16.row.col.s32." #A "." #B ".s32")                    \
  NARROW_MMA_32_4(Sat##A##B##K32, "mma.sync.aligned.m16n8k32.row.col.satfinite.s32." #A "." #B ".s32")          \
  NARROW_MMA_16_4(Sat##A##B##K16, "mma.sync.aligned.m16n8k16.row.col.satfinite.s32." #A "." #B ".s32")          \
  bool run_##A##B(const Instruction& i, const TileArrays& tiles, cudaStream_t stream) {                         \
    if (i.saturate)                                                                                             \
      return i.k == 32 ? launch_mma<Sat##A##B##K32>(tiles, stream) : launch_mma<Sat##A##B##K16>(tiles, stream); \
    return i.k == 32 ? launch_mma<S32##A##B##K32>(tiles, stream) : launch_mma<S32##A##B##K16>(tiles, stream);   \
  }

NARROW_MMA_INTEGER(s8, s8)
NARROW_MMA_INTEGER(s8, u8)
NARROW_MMA_INTEGER(u8, s8)
NARROW_MMA_INTEGER(u8, u8)

// Doubles: A register r: row g + 8 (r mod 2), k = t + 4 (r / 2). B register r: k = t + 4 r, column g.
template <int K>
__global__ void __launch_bounds__(128) run_f64(TileArrays tiles) {
  constexpr int a_count = K / 2, b_count = K / 4, columns = 64;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4,
            t = lane % 4;
  const std::size_t tile = blockIdx.x;
  const double* a_tile = static_cast<const double*>(tiles.a) + tile * tile_rows * K;
  const double* b_tile = static_cast<const double*>(tiles.b) + tile * columns * K;
  const double* c_tile = static_cast<const double*>(tiles.c) + tile * tile_rows * columns;
  double* d_tile = static_cast<double*>(tiles.d) + tile * tile_rows * columns;
  double a[a_count];
  for (int r = 0; r < a_count; ++r) a[r] = a_tile[(16 * warp + g + 8 * (r % 2)) * K + t + 4 * (r / 2)];
  for (int n = 0; n < columns; n += 8) {
    double b[b_count], c[4], d[4];
    for (int r = 0; r < b_count; ++r) b[r] = b_tile[(n + g) * K + t + 4 * r];
    for (int r = 0; r < 4; ++r) c[r] = c_tile[(16 * warp + g + 8 * (r / 2)) * columns + n + 2 * t + r % 2];
    if constexpr (NARROW_SM < 90) __trap();
    else if constexpr (K == 4)
      asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
                   : "=d"(d[0]), "=d"(d[1]), "=d"(d[2]), "=d"(d[3])
                   : "d"(a[0]), "d"(a[1]), "d"(b[0]), "d"(c[0]), "d"(c[1]), "d"(c[2]), "d"(c[3]));
    else if constexpr (K == 8)
      asm volatile(
          "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
          : "=d"(d[0]), "=d"(d[1]), "=d"(d[2]), "=d"(d[3])
          : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]), "d"(c[0]), "d"(c[1]), "d"(c[2]),
            "d"(c[3]));
    else
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7,%8,%9,%10,%11}, "
          "{%12,%13,%14,%15}, {%16,%17,%18,%19};"
          : "=d"(d[0]), "=d"(d[1]), "=d"(d[2]), "=d"(d[3])
          : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]),
            "d"(b[1]), "d"(b[2]), "d"(b[3]), "d"(c[0]), "d"(c[1]), "d"(c[2]), "d"(c[3]));
    for (int r = 0; r < 4; ++r) d_tile[(16 * warp + g + 8 * (r / 2)) * columns + n + 2 * t + r % 2] = d[r];
  }
}

template <int K>
bool launch_f64(const TileArrays& tiles, cudaStream_t stream) {
  run_f64<K><<<static_cast<unsigned>(tiles.tiles), 128, 0, stream>>>(tiles);
  require_launch("mma.sync f64");
  return true;
}

}  // namespace

bool run_mma_other(const Instruction& i, const TileArrays& tiles, cudaStream_t stream) {
  using enum TileElement;
  if (i.unit != TileUnit::mma || i.sparse) return false;
  if (i.a == f64)
    return i.k == 4   ? launch_f64<4>(tiles, stream)
           : i.k == 8 ? launch_f64<8>(tiles, stream)
                      : launch_f64<16>(tiles, stream);
  if (i.a == s8 && i.b == s8) return run_s8s8(i, tiles, stream);
  if (i.a == s8 && i.b == u8) return run_s8u8(i, tiles, stream);
  if (i.a == u8 && i.b == s8) return run_u8s8(i, tiles, stream);
  if (i.a == u8 && i.b == u8) return run_u8u8(i, tiles, stream);
  return false;
}

}  // namespace narrow::detail
