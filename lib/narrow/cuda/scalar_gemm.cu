// The scalar functions of dot/ on the device, one thread an output: slow, and the very source that the CPU runs.
#include "narrow/arith/arith.hpp"
#include "narrow/cuda/fused_gemm.cuh"
#include "narrow/cuda/fused_gemm.hpp"
#include "narrow/dot/block_step.hpp"
#include "narrow/dot/step.hpp"

namespace narrow::detail {

namespace {

__device__ inline Code wide_code(const CodeSource& s, long long index, int low_bits) {
  if (s.bytes == 8) return static_cast<const unsigned long long*>(s.data)[index];
  return load_code(s, index) >> low_bits;
}

struct Line {
  CodeSource source;
  long long base;
  int low_bits;
  Code flip;
  __device__ Code operator[](int k) const { return wide_code(source, base + k * source.k_stride, low_bits) ^ flip; }
};

// Products first .. first + count of the two lines, in the order given by `place`, fused with c.
template <class Place>
__device__ Code step_of(const DotModel& m, const Line& a, const Line& b, int count, Code c, const Place& place) {
  Code x[64], y[64];
  for (int i = 0; i < count; ++i) x[i] = a[place(i)], y[i] = b[place(i)];
  return fused_step(m, std::span<const Code>(x, static_cast<std::size_t>(count)),
                    std::span<const Code>(y, static_cast<std::size_t>(count)), c);
}

// Steps of 32 or 64 products with the scales of their blocks.
__device__ Code block_dot(const DotModel& m, const Line& a, const Line& b, const unsigned char* scale_a,
                          const unsigned char* scale_b, int products, Code c) {
  Code x[64], y[64], sx[4], sy[4];
  for (int first = 0; first < products; first += m.products_per_step) {
    const int count = products - first < m.products_per_step ? products - first : m.products_per_step;
    const int blocks = (count + m.scale_block - 1) / m.scale_block;
    for (int i = 0; i < count; ++i) x[i] = a[first + i], y[i] = b[first + i];
    for (int i = 0; i < blocks; ++i) {
      sx[i] = scale_a != nullptr ? scale_a[first / m.scale_block + i] : scale_one(m.scale);
      sy[i] = scale_b != nullptr ? scale_b[first / m.scale_block + i] : scale_one(m.scale);
    }
    const auto span = [](const Code* codes, int n) {
      return std::span<const Code>(codes, static_cast<std::size_t>(n));
    };
    c = block_step(m, span(x, count), span(y, count), span(sx, blocks), span(sy, blocks), c);
  }
  return c;
}

__device__ Code scalar_dot(const DotModel& m, const Line& a, const Line& b, int products, Code c) {
  const int l = m.products_per_step, k_of_one = m.instruction_k;
  const auto rest = [&](int first, int most) { return products - first < most ? products - first : most; };
  switch (m.rule) {
    case DotRule::fused:
      for (int k = 0; k < products; k += l) c = step_of(m, a, b, rest(k, l), c, [&](int i) { return k + i; });
      return c;
    case DotRule::fused_pair_then_add:
      for (int k = 0; k < products; k += k_of_one) {
        Code part = step_of(m, a, b, k_of_one / 2, 0, [&](int i) { return k + i / 2 * 4 + i % 2; });
        part = step_of(m, a, b, k_of_one / 2, part, [&](int i) { return k + i / 2 * 4 + i % 2 + 2; });
        c = add(part, c, m.accumulator.format);
      }
      return c;
    case DotRule::fma_chain:
      for (int k = 0; k < products; ++k) c = fma(a[k], b[k], c, m.accumulator.format);
      return c;
    case DotRule::integer:
    case DotRule::integer_saturating: {
      const auto value = [](Code code, const Format& f) {
        const auto magnitude = static_cast<long long>(magnitude_of(code, f));
        return is_negative(code, f) ? -magnitude : magnitude;
      };
      long long sum = value(c, m.accumulator.format);
      for (int k = 0; k < products; ++k) {
        sum += value(a[k], m.a.format) * value(b[k], m.b.format);
        if (m.rule == DotRule::integer_saturating && ((k + 1) % k_of_one == 0 || k + 1 == products))
          sum = sum > 0x7FFFFFFFll ? 0x7FFFFFFFll : sum < -0x80000000ll ? -0x80000000ll : sum;
      }
      return static_cast<Code>(sum) & 0xFFFFFFFFull;
    }
    default: return ~0ull;  // has_scalar_kernel says which rules are here
  }
}

__global__ void __launch_bounds__(128) scalar_gemm(FusedGemm g, DotModel m, int tiles, Tally* tally) {
  const long long outputs = static_cast<long long>(g.rows) * g.columns, count = outputs * tiles;
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  const int d_bytes = m.accumulator.format.width() / 8;
  unsigned long long mismatches = 0, first = ~0ull;
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < count; i += stride) {
    const long long tile = i / outputs, row = i % outputs / g.columns, column = i % g.columns;
    const bool zero_c =
        g.c.data == nullptr || (g.zero_c_period != 0 && (g.first_tile + tile) / g.zero_c_period % 8 == 7);
    const long long round = g.negate_period != 0 ? (g.first_tile + tile) / g.negate_period : 3;
    const Line a{g.a, tile * g.a.tile + row * g.a.line_stride, g.rule_a.low_bits,
                 (round & 1) == 0 ? m.a.format.sign_mask() : 0};
    const Line b{g.b, tile * g.b.tile + column * g.b.line_stride, g.rule_b.low_bits,
                 (round & 2) == 0 ? m.b.format.sign_mask() : 0};
    const Code c = zero_c ? 0 : wide_code(g.c, tile * g.c.tile + row * g.c_stride + column, 0);
    const int blocks = m.scale_block != 0 ? (g.products + m.scale_block - 1) / m.scale_block : 0;
    const Code result = m.scale_block == 0
                            ? scalar_dot(m, a, b, g.products, c)
                            : block_dot(m, a, b, g.scale_a == nullptr ? nullptr : g.scale_a + row * blocks,
                                        g.scale_b == nullptr ? nullptr : g.scale_b + column * blocks, g.products, c);
    const long long index = tile * g.d_tile + row * g.d_stride + column;
    if (tally == nullptr) {
      if (d_bytes == 8) static_cast<unsigned long long*>(g.d)[index] = result;
      else if (d_bytes == 4) static_cast<unsigned*>(g.d)[index] = static_cast<unsigned>(result);
      else static_cast<unsigned short*>(g.d)[index] = static_cast<unsigned short>(result);
      continue;
    }
    const CodeSource native{g.d, d_bytes};
    // Doubles keep the payload of some NaN operand; which one is not modelled: there a NaN is a NaN.
    const Code found = wide_code(native, index, 0);
    const bool both_nan = d_bytes == 8 && is_nan(found, m.accumulator.format) && is_nan(result, m.accumulator.format);
    if (found != result && !both_nan) {
      ++mismatches;
      const auto where = static_cast<unsigned long long>(g.first_tile * g.d_tile + index);
      first = where < first ? where : first;
    }
  }
  if (tally == nullptr) return;
  __syncwarp();
  add_to(&tally->mismatches, mismatches);
  if (first != ~0ull) atomicMin(&tally->first, first);
}

}  // namespace

bool has_scalar_kernel(const DotModel& m) {
  switch (m.rule) {
    case DotRule::fused:
    case DotRule::fused_pair_then_add:
    case DotRule::integer:
    case DotRule::integer_saturating:
    case DotRule::block_fused:
    case DotRule::block_groups: return m.products_per_step <= 64;
    case DotRule::fma_chain: return m.a.format == m.accumulator.format && m.b.format == m.accumulator.format;
    default: return false;
  }
}

void launch_scalar(const FusedGemm& g, const DotModel& m, int tiles, Tally* tally, cudaStream_t stream) {
  scalar_gemm<<<grid_blocks(128), 128, 0, stream>>>(g, m, tiles, tally);
  require_launch("scalar product");
}

}  // namespace narrow::detail
