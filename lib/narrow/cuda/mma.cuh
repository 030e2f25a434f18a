// mma.sync on tiles: the fragments of a warp are the same bytes for every type of 8, 16 and 32 bits.
//   lane = 4 g + t.  A register r: row g + 8 (r mod 2), bytes 4 t + 16 (r / 2) of the row.  B register r: column g,
//   bytes 4 t + 16 r.  C, D: rows g and g + 8, columns 2 t and 2 t + 1.
#pragma once

#include "narrow/cuda/launch.cuh"
#include "narrow/cuda/run_instruction.hpp"

namespace narrow::detail {

// Mma: row_bytes (16 or 32 of an operand row), half_result, and apply(d, a, b, c) on registers.
template <class Mma, int Sm>
__global__ void __launch_bounds__(128) run_mma(TileArrays tiles) {
  constexpr int a_count = Mma::row_bytes / 8, b_count = Mma::row_bytes / 16;
  constexpr int c_count = Mma::half_result ? 2 : 4, c_bytes = Mma::half_result ? 2 : 4, columns = 64;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const std::size_t tile = blockIdx.x;
  const auto* a_tile = static_cast<const unsigned char*>(tiles.a) + tile * tile_rows * Mma::row_bytes;
  const auto* b_tile = static_cast<const unsigned char*>(tiles.b) + tile * columns * Mma::row_bytes;
  const auto* c_tile = static_cast<const unsigned char*>(tiles.c) + tile * tile_rows * columns * c_bytes;
  auto* d_tile = static_cast<unsigned char*>(tiles.d) + tile * tile_rows * columns * c_bytes;
  unsigned a[a_count];
  for (int r = 0; r < a_count; ++r)
    a[r] = *reinterpret_cast<const unsigned*>(a_tile + (16 * warp + g + 8 * (r % 2)) * Mma::row_bytes + 4 * t + 16 * (r / 2));
  for (int n = 0; n < columns; n += 8) {
    unsigned b[b_count], c[c_count], d[c_count];
    for (int r = 0; r < b_count; ++r)
      b[r] = *reinterpret_cast<const unsigned*>(b_tile + (n + g) * Mma::row_bytes + 4 * t + 16 * r);
    for (int r = 0; r < c_count; ++r) {
      const int row = 16 * warp + g + 8 * (Mma::half_result ? r : r / 2), column = n + 2 * t + (Mma::half_result ? 0 : r % 2);
      c[r] = *reinterpret_cast<const unsigned*>(c_tile + (row * columns + column) * c_bytes);
    }
    if constexpr (NARROW_SM >= Sm) Mma::apply(d, a, b, c);
    else __trap();
    for (int r = 0; r < c_count; ++r) {
      const int row = 16 * warp + g + 8 * (Mma::half_result ? r : r / 2), column = n + 2 * t + (Mma::half_result ? 0 : r % 2);
      *reinterpret_cast<unsigned*>(d_tile + (row * columns + column) * c_bytes) = d[r];
    }
  }
}

template <class Mma, int Sm = 80>
bool launch_mma(const TileArrays& tiles, cudaStream_t stream) {
  run_mma<Mma, Sm><<<static_cast<unsigned>(tiles.tiles), 128, 0, stream>>>(tiles);
  require_launch("mma.sync");
  return true;
}

#define NARROW_MMA_32_4(NAME, TEXT)                                                                                       \
  struct NAME {                                                                                                           \
    static constexpr int row_bytes = 32;                                                                                  \
    static constexpr bool half_result = false;                                                                            \
    __device__ static void apply(unsigned (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const unsigned (&c)[4]) { \
      asm volatile(TEXT " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"                                      \
                   : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                                       \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]),   \
                     "r"(c[3]));                                                                                          \
    }                                                                                                                     \
  };
#define NARROW_MMA_32_2(NAME, TEXT)                                                                                       \
  struct NAME {                                                                                                           \
    static constexpr int row_bytes = 32;                                                                                  \
    static constexpr bool half_result = true;                                                                             \
    __device__ static void apply(unsigned (&d)[2], const unsigned (&a)[4], const unsigned (&b)[2], const unsigned (&c)[2]) { \
      asm volatile(TEXT " {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%8,%9};"                                                      \
                   : "=r"(d[0]), "=r"(d[1])                                                                               \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]));             \
    }                                                                                                                     \
  };
#define NARROW_MMA_16_4(NAME, TEXT)                                                                                       \
  struct NAME {                                                                                                           \
    static constexpr int row_bytes = 16;                                                                                  \
    static constexpr bool half_result = false;                                                                            \
    __device__ static void apply(unsigned (&d)[4], const unsigned (&a)[2], const unsigned (&b)[1], const unsigned (&c)[4]) { \
      asm volatile(TEXT " {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"                                                  \
                   : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                                       \
                   : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));                        \
    }                                                                                                                     \
  };
#define NARROW_MMA_16_2(NAME, TEXT)                                                                                       \
  struct NAME {                                                                                                           \
    static constexpr int row_bytes = 16;                                                                                  \
    static constexpr bool half_result = true;                                                                             \
    __device__ static void apply(unsigned (&d)[2], const unsigned (&a)[2], const unsigned (&b)[1], const unsigned (&c)[2]) { \
      asm volatile(TEXT " {%0,%1}, {%2,%3}, {%4}, {%5,%6};"                                                               \
                   : "=r"(d[0]), "=r"(d[1])                                                                               \
                   : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(c[0]), "r"(c[1]));                                              \
    }                                                                                                                     \
  };

}  // namespace narrow::detail
