// wgmma on tiles: one warpgroup, 64 rows, operands in shared memory as cores of 8 rows by 16 bytes without swizzle.
//   byte x of row r is at ((r / 8) * 2 + x / 16) * 128 + (r mod 8) * 16 + x mod 16: cores that follow in k are 128 bytes
//   apart (leading offset), cores that follow in rows 256 (stride offset).
#pragma once

#include "narrow/cuda/launch.cuh"
#include "narrow/cuda/run_instruction.hpp"
#include "narrow/cuda/wgmma_operands.cuh"

// 90a alone has the instruction; for others the kernels are a trap that nobody launches (Instruction::runs_on).
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define NARROW_HAS_WGMMA 1
#else
#define NARROW_HAS_WGMMA 0
#endif

namespace narrow::detail {

inline constexpr int wgmma_row_bytes = 32;  // every wgmma reads 32 bytes of an operand row

__device__ inline unsigned long long core_descriptor(const void* shared) {
  const auto address = static_cast<unsigned long long>(__cvta_generic_to_shared(shared));
  return (address >> 4 & 0x3FFF) | (128ull >> 4) << 16 | (256ull >> 4) << 32;
}

__device__ inline void copy_to_cores(unsigned char* to, const unsigned char* from, int rows) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * 2; i += static_cast<int>(blockDim.x)) {
    const int row = i / 2, half = i % 2;
    *reinterpret_cast<uint4*>(to + (row / 8 * 2 + half) * 128 + row % 8 * 16) =
        *reinterpret_cast<const uint4*>(from + row * wgmma_row_bytes + half * 16);
  }
}

// Wgmma: half_result and apply<from_registers, sign_a, sign_b>(d, a, descriptor_a, descriptor_b, scale_d).
template <class Wgmma, int N, bool FromRegisters, bool Negate>
__global__ void __launch_bounds__(128) run_wgmma(TileArrays tiles, Instruction instruction) {
#if NARROW_HAS_WGMMA
  constexpr int columns = N == 256 ? 256 : 64, c_bytes = Wgmma::half_result ? 2 : 4;
  constexpr int count = Wgmma::half_result ? N / 4 : N / 2;
  __shared__ __align__(128) unsigned char shared_a[tile_rows * wgmma_row_bytes];
  __shared__ __align__(128) unsigned char shared_b[columns * wgmma_row_bytes];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const std::size_t tile = blockIdx.x;
  const auto* a_tile = static_cast<const unsigned char*>(tiles.a) + tile * tile_rows * wgmma_row_bytes;
  const auto* b_tile = static_cast<const unsigned char*>(tiles.b) + tile * columns * wgmma_row_bytes;
  const auto* c_tile = static_cast<const unsigned char*>(tiles.c) + tile * tile_rows * columns * c_bytes;
  auto* d_tile = static_cast<unsigned char*>(tiles.d) + tile * tile_rows * columns * c_bytes;
  copy_to_cores(shared_a, a_tile, tile_rows);
  copy_to_cores(shared_b, b_tile, columns);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();

  unsigned a[4] = {};
  if constexpr (FromRegisters)
    for (int r = 0; r < 4; ++r)
      a[r] = *reinterpret_cast<const unsigned*>(a_tile + (16 * warp + g + 8 * (r % 2)) * wgmma_row_bytes + 4 * t + 16 * (r / 2));
  const int scale_d = tile_drops_addend(tiles.first_tile + tile) ? 0 : 1;
  const TileSigns minus = tile_negates(instruction, tiles.first_tile + tile);
  const unsigned long long descriptor_a = core_descriptor(shared_a);
  for (int n = 0; n < columns; n += N) {
    const unsigned long long descriptor_b = core_descriptor(shared_b + n * wgmma_row_bytes);
    const auto place = [&](int r) {
      const int row = 16 * warp + g + 8 * (Wgmma::half_result ? r % 2 : r / 2 % 2);
      const int column = n + (Wgmma::half_result ? r / 2 * 8 + 2 * t : r / 4 * 8 + 2 * t + r % 2);
      return (row * columns + column) * c_bytes;
    };
    unsigned d[count];
#pragma unroll
    for (int r = 0; r < count; ++r) d[r] = *reinterpret_cast<const unsigned*>(c_tile + place(r));
    if constexpr (Negate) {
      if (minus.a && minus.b) Wgmma::template apply<FromRegisters, -1, -1>(d, a, descriptor_a, descriptor_b, scale_d);
      else if (minus.a) Wgmma::template apply<FromRegisters, -1, 1>(d, a, descriptor_a, descriptor_b, scale_d);
      else if (minus.b) Wgmma::template apply<FromRegisters, 1, -1>(d, a, descriptor_a, descriptor_b, scale_d);
      else Wgmma::template apply<FromRegisters, 1, 1>(d, a, descriptor_a, descriptor_b, scale_d);
    } else {
      Wgmma::template apply<FromRegisters, 1, 1>(d, a, descriptor_a, descriptor_b, scale_d);
    }
    asm volatile("wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (int r = 0; r < count; ++r) asm volatile("" : "+r"(d[r])::"memory");
#pragma unroll
    for (int r = 0; r < count; ++r) *reinterpret_cast<unsigned*>(d_tile + place(r)) = d[r];
  }
#else
  __trap();
#endif
}

template <class Wgmma, bool HasSigns = true>
bool launch_wgmma(const Instruction& i, const TileArrays& tiles, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(tiles.tiles);
  const auto run = [&]<int N>() {
    if (i.from_registers) run_wgmma<Wgmma, N, true, false><<<blocks, 128, 0, stream>>>(tiles, i);
    else if (HasSigns && N == 64 && i.negate) run_wgmma<Wgmma, N, false, HasSigns && N == 64><<<blocks, 128, 0, stream>>>(tiles, i);
    else run_wgmma<Wgmma, N, false, false><<<blocks, 128, 0, stream>>>(tiles, i);
  };
  if (i.n == 8) run.template operator()<8>();
  else if (i.n == 64) run.template operator()<64>();
  else run.template operator()<256>();
  require_launch("wgmma");
  return true;
}

// wgmma.sp, 64 columns: A's kept half as above, B with all of K in rows of 64 bytes.
__device__ inline unsigned long long wide_core_descriptor(const void* shared) {
  const auto address = static_cast<unsigned long long>(__cvta_generic_to_shared(shared));
  return (address >> 4 & 0x3FFF) | (128ull >> 4) << 16 | (512ull >> 4) << 32;
}

// One overload for each number of result registers R (each N). SIGNS and TRANSPOSE: the immediates that the type takes.
#define NARROW_WGMMA_ONE(R, SHAPE, TYPES, SIGNS_SHARED, SIGNS_REGISTERS)                                                 \
  template <bool FromRegisters, int SignA, int SignB>                                                                    \
  __device__ static void apply(unsigned (&d)[R], const unsigned (&a)[4], unsigned long long da, unsigned long long db,   \
                               int scale_d) {                                                                            \
    if constexpr (FromRegisters)                                                                                         \
      asm volatile("{\n.reg .pred p;\nwgmma.fence.sync.aligned;\nsetp.ne.b32 p, " NARROW_AFTER##R##_5 ", 0;\nwgmma.mma_async.sync.aligned." SHAPE   \
                   "." TYPES " {" NARROW_D##R "}, {" NARROW_AFTER##R##_0 ", " NARROW_AFTER##R##_1 ", " NARROW_AFTER##R##_2 \
                   ", " NARROW_AFTER##R##_3 "}, " NARROW_AFTER##R##_4 ", p" SIGNS_REGISTERS ";\n}\n"                     \
                   : NARROW_D##R##_OPERANDS(d)                                                                           \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(db), "r"(scale_d), "n"(SignA), "n"(SignB));         \
    else                                                                                                                 \
      asm volatile("{\n.reg .pred p;\nwgmma.fence.sync.aligned;\nsetp.ne.b32 p, " NARROW_AFTER##R##_2 ", 0;\nwgmma.mma_async.sync.aligned." SHAPE   \
                   "." TYPES " {" NARROW_D##R "}, " NARROW_AFTER##R##_0 ", " NARROW_AFTER##R##_1 ", p" SIGNS_SHARED      \
                   ";\n}\n"                                                                                              \
                   : NARROW_D##R##_OPERANDS(d)                                                                           \
                   : "l"(da), "l"(db), "r"(scale_d), "n"(SignA), "n"(SignB));                                            \
  }
#define NARROW_SIGNS_SHARED(R) ", " NARROW_AFTER##R##_3 ", " NARROW_AFTER##R##_4
#define NARROW_SIGNS_REGISTERS(R) ", " NARROW_AFTER##R##_6 ", " NARROW_AFTER##R##_7

// 16-bit types can be transposed (they are not here), others are always k-major.
#define NARROW_WGMMA_16_BIT(NAME, HALF, K, TYPES, R8, R64, R256)                                                        \
  struct NAME {                                                                                                         \
    static constexpr bool half_result = HALF;                                                                           \
    NARROW_WGMMA_ONE(R8, "m64n8" K, TYPES, NARROW_SIGNS_SHARED(R8) ", 0, 0", NARROW_SIGNS_REGISTERS(R8) ", 0")          \
    NARROW_WGMMA_ONE(R64, "m64n64" K, TYPES, NARROW_SIGNS_SHARED(R64) ", 0, 0", NARROW_SIGNS_REGISTERS(R64) ", 0")      \
    NARROW_WGMMA_ONE(R256, "m64n256" K, TYPES, NARROW_SIGNS_SHARED(R256) ", 0, 0", NARROW_SIGNS_REGISTERS(R256) ", 0")  \
  };
#define NARROW_WGMMA_OTHER(NAME, HALF, K, TYPES, R8, R64, R256)                                                         \
  struct NAME {                                                                                                         \
    static constexpr bool half_result = HALF;                                                                           \
    NARROW_WGMMA_ONE(R8, "m64n8" K, TYPES, NARROW_SIGNS_SHARED(R8), NARROW_SIGNS_REGISTERS(R8))                         \
    NARROW_WGMMA_ONE(R64, "m64n64" K, TYPES, NARROW_SIGNS_SHARED(R64), NARROW_SIGNS_REGISTERS(R64))                     \
    NARROW_WGMMA_ONE(R256, "m64n256" K, TYPES, NARROW_SIGNS_SHARED(R256), NARROW_SIGNS_REGISTERS(R256))                 \
  };
#define NARROW_WGMMA_INTEGER(NAME, TYPES)                                                                               \
  struct NAME {                                                                                                         \
    static constexpr bool half_result = false;                                                                          \
    NARROW_WGMMA_ONE(4, "m64n8k32", TYPES, "", "")                                                                      \
    NARROW_WGMMA_ONE(32, "m64n64k32", TYPES, "", "")                                                                    \
    NARROW_WGMMA_ONE(128, "m64n256k32", TYPES, "", "")                                                                  \
  };
#define NARROW_WGMMA_SATURATING(NAME, TYPES)                                                                            \
  struct NAME {                                                                                                         \
    static constexpr bool half_result = false;                                                                          \
    NARROW_WGMMA_ONE(32, "m64n64k32", TYPES, "", "")                                                                    \
  };

}  // namespace narrow::detail
