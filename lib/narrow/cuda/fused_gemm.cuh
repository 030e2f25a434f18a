// Products of matrices as a fused tensor-core model computes them, many outputs a thread. Same formulas as fused_step
// (dot/step.hpp), on operands taken apart once a tile; specials keep their meaning through exponents far out of range.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "narrow/cuda/compare.cuh"
#include "narrow/dot/model.hpp"
#include "narrow/dot/step.hpp"
#include "narrow/round/round_to.hpp"

namespace narrow::detail {

// Where the codes of an operand lie: element (line, k) of tile t is at data[t * tile + line * line_stride + k *
// k_stride].
struct CodeSource {
  const void* data = nullptr;
  int bytes = 2;
  long long tile = 0, line_stride = 0, k_stride = 0;
};

// How a code is taken apart: magnitude with ten fraction bits (and `lift` more), exponent, sign.
struct OperandRule {
  int mantissa_bits, bias, exponent_mask, low_bits;  // low_bits: what a tf32 word carries below its code
  int lift;
  bool has_inf, has_nan, negate;
  bool widened;  // taken as an fp16 value: what is subnormal in the narrow format gets its own exponent
};

struct FusedGemm {
  CodeSource a, b, c;  // c.data may be null: zeros
  void* d = nullptr;   // where results go, or in a comparison what they are held against
  long long d_tile = 0, d_stride = 0, c_stride = 0;
  OperandRule rule_a, rule_b;
  int rows, columns, products;
  int fraction_bits, floor;
  unsigned keep_mask;  // fp32 results: bits of the word that exist
  int part;            // products of one chain; 0: one chain that starts from c, unless there are segments
  const int* order;    // which k stands at which position (-1: a zero product); null: in order
  const int* ends;     // where chains end, in positions, ascending; null: by `part`
  int positions;       // of order
  int pair_block;      // k mod 4 in {0, 1} before {2, 3} within every so many; 0: in order
  int zero_c_period;   // of eight rounds of this many tiles, the last has c = 0 (scale-d = 0); 0: none
  int negate_period;   // rounds of so many tiles with -a and -b, -b, -a, neither in turn; 0: none
  long long first_tile;
  const unsigned char *scale_a, *scale_b;  // block-scaled models: codes of the scales, line after line; null: all ones
};

// Exponents that mark what is no number. A zero never wins a comparison; sums with an Inf or a NaN always do.
inline constexpr int zero_exponent = -3000, inf_exponent = 9000, nan_exponent = 12000, special_above = 1000;

__device__ inline unsigned load_code(const CodeSource& s, long long index) {
  if (s.bytes == 1) return static_cast<const unsigned char*>(s.data)[index];
  if (s.bytes == 2) return static_cast<const unsigned short*>(s.data)[index];
  return static_cast<const unsigned*>(s.data)[index];
}

struct Operand {
  unsigned magnitude;
  int exponent, sign;
};

__device__ inline Operand take_apart(unsigned word, const OperandRule& r) {
  const unsigned code = word >> r.low_bits;
  const int field = static_cast<int>(code >> r.mantissa_bits) & r.exponent_mask;
  const unsigned mantissa = code & ((1u << r.mantissa_bits) - 1);
  const int sign_place = r.mantissa_bits + (r.exponent_mask == 255 ? 8 : 32 - __clz(r.exponent_mask));
  Operand o;
  o.sign = ((code >> sign_place & 1) != 0) != r.negate ? -1 : 1;
  o.magnitude = (field != 0 ? mantissa | 1u << r.mantissa_bits : mantissa) << r.lift;
  o.exponent = (field != 0 ? field : 1) - r.bias;
  if (o.magnitude == 0) o.exponent = zero_exponent;
  if (r.widened && field == 0 && mantissa != 0) {
    const int up =
        min(__clz(mantissa) - (31 - r.mantissa_bits), o.exponent + 14);  // fp16 has its own subnormals at -14
    o.magnitude <<= up, o.exponent -= up;
  }
  if (field == r.exponent_mask && r.has_nan) {
    if (r.has_inf) o.exponent = mantissa != 0 ? nan_exponent : inf_exponent;
    else if (mantissa == (1u << r.mantissa_bits) - 1) o.exponent = nan_exponent;
  }
  return o;
}

// The accumulator's code as a term: significand, exponent of its unit place, sign.
template <bool Half>
__device__ inline Operand addend_term(unsigned code) {
  constexpr int mantissa_bits = Half ? 10 : 23, top = Half ? 31 : 255, bias = Half ? 15 : 127;
  const int field = static_cast<int>(code >> mantissa_bits) & top;
  const unsigned mantissa = code & ((1u << mantissa_bits) - 1);
  Operand o;
  o.sign = (code >> (Half ? 15 : 31)) != 0 ? -1 : 1;
  o.magnitude = field != 0 ? mantissa | 1u << mantissa_bits : mantissa;
  o.exponent = (field != 0 ? field : 1) - bias;
  if (o.magnitude == 0) o.exponent = zero_exponent;
  if (field == top) o.exponent = mantissa != 0 ? nan_exponent : inf_exponent;
  return o;
}

// sum * 2^lowest, cut toward zero to fp32 (or fewer bits of it). From 2^128 on Inf; what underflows is +0.
__device__ inline unsigned cut_to_float(long long sum, int lowest, unsigned keep_mask) {
  const unsigned long long magnitude =
      sum < 0 ? 0ull - static_cast<unsigned long long>(sum) : static_cast<unsigned long long>(sum);
  const unsigned sign = sum < 0 ? 0x80000000u : 0;
  if (magnitude == 0) return 0;
  const int leading = __clzll(static_cast<long long>(magnitude));
  const int exponent = 63 - leading + lowest;
  if (exponent > 127) return sign | 0x7F800000u;
  // Bits 63..40 after normalisation are the 24 of the significand; below emin they move down.
  unsigned significand = static_cast<unsigned>(magnitude << leading >> 40);
  unsigned bits = (static_cast<unsigned>(exponent + 126) << 23) + significand;
  if (exponent < -126) bits = __funnelshift_rc(significand, 0u, static_cast<unsigned>(-126 - exponent));
  bits &= keep_mask;
  return bits == 0 ? 0 : sign | bits;
}

// The same, rounded to the nearest fp16, ties to even, straight from the sum.
__device__ inline unsigned round_to_half(long long sum, int lowest) {
  const unsigned long long magnitude =
      sum < 0 ? 0ull - static_cast<unsigned long long>(sum) : static_cast<unsigned long long>(sum);
  if (magnitude == 0) return 0;
  const Code code =
      round_significand(sum < 0, static_cast<std::uint64_t>(magnitude), lowest, false, ieee(5, 10), Cast{}, 0);
  return (code & 0x7FFF) == 0 ? 0 : static_cast<unsigned>(code);
}

// Chains are joined by one IEEE addition in the accumulator's format. For fp16 the sum of two is exact in double.
template <bool Half>
__device__ inline unsigned join(unsigned part, unsigned total) {
  if constexpr (!Half) return __float_as_uint(__fadd_rn(__uint_as_float(part), __uint_as_float(total)));
  else {
    const double sum = decode(part, ieee(5, 10)) + decode(total, ieee(5, 10));
    return sum != sum ? 0x7FFFu : static_cast<unsigned>(encode(sum, ieee(5, 10)));
  }
}

inline constexpr int fused_threads = 256, fused_tile = 64, fused_chunk = 32;

struct DecodedTile {
  unsigned magnitude[fused_chunk][fused_tile];
  int exponent[fused_chunk][fused_tile];
  int sign[fused_chunk][fused_tile];
};
inline constexpr std::size_t fused_shared_bytes = 2 * sizeof(DecodedTile);

__device__ inline int pair_position_to_k(int position, int block) {
  const int place = position % block, half = place % (block / 2);
  return position - place + 4 * (half / 2) + half % 2 + (place >= block / 2 ? 2 : 0);
}

__device__ inline void decode_chunk(DecodedTile& to, const CodeSource& from, const OperandRule& rule, long long base,
                                    int first_line, int lines, int first_k, const FusedGemm& g) {
  for (int i = static_cast<int>(threadIdx.x); i < fused_tile * fused_chunk; i += fused_threads) {
    const int line = i % fused_tile, position = i / fused_tile;
    int k = first_k + (g.pair_block != 0 ? pair_position_to_k(position, g.pair_block) : position);
    if (g.order != nullptr) k = k < g.positions ? g.order[k] : -1;
    Operand o{0, zero_exponent, 1};
    if (first_line + line < lines && k >= 0 && k < g.products)
      o = take_apart(load_code(from, base + (first_line + line) * from.line_stride + k * from.k_stride), rule);
    to.magnitude[position][line] = o.magnitude;
    to.exponent[position][line] = o.exponent;
    to.sign[position][line] = o.sign;
  }
}

__device__ inline void spread(int (&to)[4], const int4& v) { to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w; }
__device__ inline void spread(unsigned (&to)[4], const uint4& v) { to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w; }

// Any NaN, Inf * 0 and Inf - Inf give NaN, else an Inf wins.
template <int L, bool Half>
__device__ unsigned special_result(const DecodedTile& a, const DecodedTile& b, int row, int column, int first,
                                   unsigned c) {
  bool nan = false, plus = false, minus = false;
  for (int k = first; k < first + L; ++k) {
    const int ea = a.exponent[k][row], eb = b.exponent[k][column];
    const bool infinite = ea == inf_exponent || eb == inf_exponent;
    if (ea == nan_exponent || eb == nan_exponent || (infinite && (ea == zero_exponent || eb == zero_exponent)))
      nan = true;
    else if (infinite) (a.sign[k][row] * b.sign[k][column] < 0 ? minus : plus) = true;
  }
  const Operand addend = addend_term<Half>(c);
  if (addend.exponent == nan_exponent) nan = true;
  if (addend.exponent == inf_exponent) (addend.sign < 0 ? minus : plus) = true;
  if (nan || (plus && minus)) return Half ? 0x7FFF : 0x7FFFFFFF;
  return (Half ? 0x7C00u : 0x7F800000u) | (minus ? (Half ? 0x8000u : 0x80000000u) : 0u);
}

// One step for the 4 x 4 outputs of a thread: the largest exponent of each, then the terms cut to it and added.
// A term has at most F + 2 bits, so sixteen at F = 25 stay within 32 bits signed (0.999 of the range for ten fraction
// bits); Wide: longer steps are added in groups of sixteen.
template <int L, bool Half, bool Wide>
__device__ inline void fused_steps(const FusedGemm& g, const DecodedTile& a, const DecodedTile& b, int row, int column,
                                   int first, unsigned (&chain)[4][4]) {
  constexpr int unrolled = L >= 16 ? 8 : 2;  // short steps unrolled whole do not fit the registers
  int largest[4][4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) largest[i][j] = max(g.floor, addend_term<Half>(chain[i][j]).exponent);
#pragma unroll unrolled
  for (int k = first; k < first + L; ++k) {
    int ea[4], eb[4];
    spread(ea, *reinterpret_cast<const int4*>(&a.exponent[k][row]));
    spread(eb, *reinterpret_cast<const int4*>(&b.exponent[k][column]));
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) largest[i][j] = __viaddmax_s32(ea[i], eb[j], largest[i][j]);
  }

  constexpr int groups = Wide ? (L + 15) / 16 : 1, group = L < 16 || !Wide ? L : 16;
  // Ten fraction bits each make twenty of the product; F beyond that is in the lift of a, F below is shifted out.
  const int below = g.fraction_bits < 20 ? 20 - g.fraction_bits : 0;
  int sum[4][4] = {};
  long long sum_rest[groups > 1 ? 4 : 1][4] = {};
#pragma unroll
  for (int part = 0; part < groups; ++part) {
    if constexpr (groups > 1) {
      if (part > 0) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j) sum_rest[i][j] += sum[i][j], sum[i][j] = 0;
      }
    }
#pragma unroll unrolled
    for (int k = first + part * 16; k < first + part * 16 + group; ++k) {
      unsigned ma[4], mb[4];
      int ea[4], eb[4], sa[4], sb[4];
      spread(ma, *reinterpret_cast<const uint4*>(&a.magnitude[k][row]));
      spread(mb, *reinterpret_cast<const uint4*>(&b.magnitude[k][column]));
      spread(ea, *reinterpret_cast<const int4*>(&a.exponent[k][row]));
      spread(eb, *reinterpret_cast<const int4*>(&b.exponent[k][column]));
      spread(sa, *reinterpret_cast<const int4*>(&a.sign[k][row]));
      spread(sb, *reinterpret_cast<const int4*>(&b.sign[k][column]));
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          // A zero product is shifted by thousands: __funnelshift_rc stops at 32.
          const unsigned cut =
              __funnelshift_rc(ma[i] * mb[j], 0u, static_cast<unsigned>(largest[i][j] + below - ea[i] - eb[j]));
          sum[i][j] += static_cast<int>(cut) * (sa[i] * sb[j]);
        }
    }
  }

  constexpr int addend_bits = Half ? 10 : 23;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (largest[i][j] > special_above) {
        chain[i][j] = special_result<L, Half>(a, b, row + i, column + j, first, chain[i][j]);
        continue;
      }
      const Operand c = addend_term<Half>(chain[i][j]);
      const int up = g.fraction_bits - addend_bits;
      const unsigned distance = static_cast<unsigned>(largest[i][j] - c.exponent);
      const unsigned cut = up >= 0 ? __funnelshift_rc(c.magnitude << up, 0u, distance)
                                   : __funnelshift_rc(c.magnitude, 0u, distance + static_cast<unsigned>(-up));
      long long total = static_cast<long long>(sum[i][j]) + static_cast<long long>(static_cast<int>(cut) * c.sign);
      if constexpr (groups > 1) total += sum_rest[i][j];
      const int lowest = largest[i][j] - g.fraction_bits;
      chain[i][j] = Half ? round_to_half(total, lowest) : cut_to_float(total, lowest, g.keep_mask);
    }
}

// 64 x 64 outputs a block, 4 x 4 a thread; blockIdx.z is the tile of a batch. tally: count differences, store nothing.
template <int L, bool Half, bool Wide>
__global__ void __launch_bounds__(fused_threads, 2) fused_gemm(FusedGemm g, Tally* tally) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  DecodedTile& a = reinterpret_cast<DecodedTile*>(shared_bytes)[0];
  DecodedTile& b = reinterpret_cast<DecodedTile*>(shared_bytes)[1];
  const int first_row = static_cast<int>(blockIdx.y) * fused_tile,
            first_column = static_cast<int>(blockIdx.x) * fused_tile;
  const int row = static_cast<int>(threadIdx.x) / 16 * 4, column = static_cast<int>(threadIdx.x) % 16 * 4;
  const long long tile = blockIdx.z;
  const bool zero_c = g.c.data == nullptr || (g.zero_c_period != 0 && (g.first_tile + tile) / g.zero_c_period % 8 == 7);
  OperandRule rule_a = g.rule_a, rule_b = g.rule_b;
  if (g.negate_period != 0) {
    const long long round = (g.first_tile + tile) / g.negate_period;
    rule_a.negate = (round & 1) == 0, rule_b.negate = (round & 2) == 0;
  }

  const bool joins = g.part != 0 || g.ends != nullptr;
  unsigned chain[4][4], total[4][4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      unsigned c = 0;
      if (!zero_c && first_row + row + i < g.rows && first_column + column + j < g.columns)
        c = load_code(g.c, tile * g.c.tile + (first_row + row + i) * g.c_stride + first_column + column + j);
      total[i][j] = c;
      chain[i][j] = joins ? 0 : c;
    }

  int in_part = 0, segment = 0;
  const int positions = g.order != nullptr ? g.positions : g.products;
  for (int k0 = 0; k0 < positions; k0 += fused_chunk) {
    decode_chunk(a, g.a, rule_a, tile * g.a.tile, first_row, g.rows, k0, g);
    decode_chunk(b, g.b, rule_b, tile * g.b.tile, first_column, g.columns, k0, g);
    __syncthreads();
    for (int first = 0; first < fused_chunk && k0 + first < positions; first += L) {
      fused_steps<L, Half, Wide>(g, a, b, row, column, first, chain);
      in_part += L;
      const bool ends = g.ends != nullptr ? k0 + first + L >= g.ends[segment] : g.part != 0 && in_part >= g.part;
      if (joins && (ends || k0 + first + L >= positions)) {
        ++segment;
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j) total[i][j] = join<Half>(chain[i][j], total[i][j]), chain[i][j] = 0;
        in_part = 0;
      }
    }
    __syncthreads();
  }

  unsigned long long mismatches = 0, first = ~0ull;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (first_row + row + i >= g.rows || first_column + column + j >= g.columns) continue;
      const unsigned result = joins ? total[i][j] : chain[i][j];
      const long long index = tile * g.d_tile + (first_row + row + i) * g.d_stride + first_column + column + j;
      if (tally != nullptr) {
        const unsigned native =
            Half ? static_cast<const unsigned short*>(g.d)[index] : static_cast<const unsigned*>(g.d)[index];
        if (native != result) {
          ++mismatches;
          const unsigned long long where = static_cast<unsigned long long>(g.first_tile * g.d_tile + index);
          first = where < first ? where : first;
        }
      } else if constexpr (Half) {
        static_cast<unsigned short*>(g.d)[index] = static_cast<unsigned short>(result);
      } else {
        static_cast<unsigned*>(g.d)[index] = result;
      }
    }
  if (tally != nullptr) {
    add_to(&tally->mismatches, mismatches);
    if (first != ~0ull) atomicMin(&tally->first, first);
  }
}

template <bool Half>
void launch_fused_by_step(const FusedGemm& g, int products_per_step, bool wide, int tiles, Tally* tally,
                          cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((g.columns + fused_tile - 1) / fused_tile),
                  static_cast<unsigned>((g.rows + fused_tile - 1) / fused_tile), static_cast<unsigned>(tiles));
  const auto run = [&](auto* kernel) {
    require_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, fused_shared_bytes),
                 "fused product");
    kernel<<<grid, fused_threads, fused_shared_bytes, stream>>>(g, tally);
    require_launch("fused product");
  };
  switch (products_per_step) {
    case 4: return run(fused_gemm<4, Half, false>);
    case 8: return run(fused_gemm<8, Half, false>);
    case 16: return run(fused_gemm<16, Half, false>);
    default: return wide ? run(fused_gemm<32, Half, true>) : run(fused_gemm<32, Half, false>);
  }
}

// Each accumulator has its translation unit.
void launch_fused_float(const FusedGemm&, int products_per_step, bool wide, int tiles, Tally*, cudaStream_t);
void launch_fused_half(const FusedGemm&, int products_per_step, bool wide, int tiles, Tally*, cudaStream_t);

}  // namespace narrow::detail
