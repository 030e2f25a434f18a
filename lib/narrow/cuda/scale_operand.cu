// One kernel for each shape of blocks: runs along a row, runs down a column, tiles, the whole tensor.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "narrow/base/random.hpp"
#include "narrow/cuda/cast_lane.cuh"
#include "narrow/cuda/launch.cuh"
#include "narrow/cuda/scale_operand.hpp"
#include "narrow/scale/block_scale.hpp"
#include "narrow/scale/hadamard.hpp"

namespace narrow {

namespace {

using namespace detail;

constexpr int threads = 256;
constexpr unsigned infinity = 0x7F800000u;

template <class In>
struct Task {
  const In* in;
  std::size_t rows, cols;
  BlockFormat format;
  E8m0Element element;
  LanePlan plan, nearest, of_scale;  // nearest: by which scales are chosen
  const unsigned* amax;              // of the whole tensor, where it is needed
  float* decode;
  bool counts_nan, has_tensor_scale, tries_two;  // asked on the host: the table of rules is not on the device
  bool over_rows;  // then the matrix is the transposed one, and so is the index of random bits
  std::uint64_t seed;
};

__device__ float number(float x) { return x; }
__device__ float number(__half x) { return __half2float(x); }
__device__ float number(__nv_bfloat16 x) { return __bfloat162float(x); }

// Some that lie side by side, read and written at once.
template <class T, int N>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Pack {
  T v[N];
};
constexpr int wide = 8;
template <int N, class T>
bool is_packed(const T* p) {
  return reinterpret_cast<std::uintptr_t>(p) % alignof(Pack<T, N>) == 0;
}

// Bits of |x|, by which magnitudes are ordered; NaN is above all, or not there.
__device__ unsigned magnitude(float x, bool counts_nan) {
  const unsigned word = __float_as_uint(x) & 0x7FFFFFFFu;
  return word > infinity && !counts_nan ? 0 : word;
}

__noinline__ __device__ float round_general(float x, const LanePlan& p, std::uint64_t random) {
  return static_cast<float>(decode(encode(x, p.format, p.cast, random), p.format));
}

struct LaneToE4m3 {
  const LanePlan& plan;
  __device__ float operator()(float x) const { return round_lane<LaneWay::anchor, Rounding::nearest_even>(x, plan); }
};

template <class In>
__device__ BlockScale scale_of(unsigned amax, const TensorScale& tensor, const Task<In>& task) {
  return block_scale(__uint_as_float(amax), task.format.rule, task.element, tensor, LaneToE4m3{task.of_scale});
}

// Elements to what they become in the format, under a scale. Element e has the random bits of index first + e * step.
template <int N, class In>
__device__ void round_elements(float (&x)[N], float encode, std::size_t first, std::size_t step, const Task<In>& task) {
  const LanePlan& p = task.plan;
  const bool is_random = p.cast.rounding == Rounding::stochastic;
#pragma unroll
  for (int e = 0; e < N; ++e) x[e] = scaled_element(x[e], encode, task.format);
  const auto by = [&]<LaneWay W, Rounding R>() {
#pragma unroll
    for (int e = 0; e < N; ++e) x[e] = round_lane<W, R>(x[e], p, random_word<R>(p, task.seed, first + e * step));
  };
  if (p.way == LaneWay::anchor && is_random) by.template operator()<LaneWay::anchor, Rounding::stochastic>();
  else if (p.way == LaneWay::anchor) by.template operator()<LaneWay::anchor, Rounding::nearest_even>();
  else if (p.way == LaneWay::field && !is_random) by.template operator()<LaneWay::field, Rounding::nearest_even>();
  else
    for (int e = 0; e < N; ++e) x[e] = round_general(x[e], p, random_bits(task.seed, first + e * step));
}

// What rounding to nearest makes of an element under one of two scales, whatever its own rounding is.
template <class In>
__device__ void try_element(FourOverSix& both, int which, std::size_t row, std::size_t place, const TensorScale& tensor,
                            const Task<In>& task) {
  const float x = number(task.in[place]), scaled = scaled_element(x, both.scales[which].encode, task.format);
  both.add(which, row, x, round_lane<LaneWay::anchor, Rounding::nearest_even>(scaled, task.nearest), tensor,
           task.format.rule);
}

__device__ void put(float* out, float x) { *out = x; }
__device__ void put(std::uint16_t* out, float x) { *out = static_cast<std::uint16_t>(__float_as_uint(x) >> 16); }
__device__ void put(__half* out, float x) { *out = __float2half_rn(x); }
__device__ void put(__nv_bfloat16* out, float x) { *out = __float2bfloat16_rn(x); }

// What is known of the tensor; one thread says what the product is multiplied by.
template <class In>
__device__ TensorScale tensor_of(const Task<In>& task) {
  TensorScale tensor;
  if (task.has_tensor_scale) tensor = tensor_scale(__uint_as_float(*task.amax), task.format);
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)
    *task.decode = task.has_tensor_scale ? decode_factor(1, tensor, task.format) : 1;
  return tensor;
}

template <class In>
__global__ void __launch_bounds__(threads)
    find_amax(const In* in, std::size_t count, bool is_aligned, bool counts_nan, unsigned* out) {
  unsigned most = 0;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * threads;
  const std::size_t first = blockIdx.x * static_cast<std::size_t>(threads) + threadIdx.x;
  const std::size_t packs = is_aligned ? count / wide : 0;
  for (std::size_t i = first; i < packs; i += step) {
    const auto x = reinterpret_cast<const Pack<In, wide>*>(in)[i];
#pragma unroll
    for (int e = 0; e < wide; ++e) most = max(most, magnitude(number(x.v[e]), counts_nan));
  }
  for (std::size_t i = wide * packs + first; i < count; i += step)
    most = max(most, magnitude(number(in[i]), counts_nan));
  most = __reduce_max_sync(0xFFFFFFFFu, most);
  if (threadIdx.x % 32 == 0 && most != 0) atomicMax(out, most);
}

template <class In, class Out>
__global__ void __launch_bounds__(threads)
    whole_tensor(const __grid_constant__ Task<In> task, Out* out, bool is_aligned) {
  const unsigned amax = *task.amax;
  const BlockScale s = scale_of(amax, tensor_scale(__uint_as_float(amax), task.format), task);
  const std::size_t count = task.rows * task.cols, step = static_cast<std::size_t>(gridDim.x) * threads;
  const std::size_t first = blockIdx.x * static_cast<std::size_t>(threads) + threadIdx.x;
  const std::size_t packs = is_aligned ? count / wide : 0;
  if (first == 0) *task.decode = s.stored;
  for (std::size_t i = first; i < packs; i += step) {
    const auto x = reinterpret_cast<const Pack<In, wide>*>(task.in)[i];
    float y[wide];
#pragma unroll
    for (int e = 0; e < wide; ++e) y[e] = number(x.v[e]);
    round_elements(y, s.encode, wide * i, 1, task);
    Pack<Out, wide> z;
#pragma unroll
    for (int e = 0; e < wide; ++e) put(&z.v[e], y[e]);
    reinterpret_cast<Pack<Out, wide>*>(out)[i] = z;
  }
  for (std::size_t i = wide * packs + first; i < count; i += step) {
    float y[1] = {number(task.in[i])};
    round_elements(y, s.encode, task.over_rows ? i % task.cols * task.rows + i / task.cols : i, 1, task);
    put(out + i, y[0]);
  }
}

// Rows of whole blocks: these follow one another in memory. A thread has eight elements, block_cols / 8 threads of a
// warp have a block.
template <class In, class Out>
__global__ void __launch_bounds__(threads) runs_along_rows(const __grid_constant__ Task<In> task, Out* out) {
  const TensorScale tensor = tensor_of(task);
  const auto lanes = static_cast<unsigned>(task.format.block_cols / wide);
  const std::size_t packs = task.rows * task.cols / wide, step = static_cast<std::size_t>(gridDim.x) * threads;
  const unsigned lane = threadIdx.x % 32;
  // A warp goes on as long as one of its threads has something to do.
  for (std::size_t start = blockIdx.x * static_cast<std::size_t>(threads) + threadIdx.x - lane; start < packs;
       start += step) {
    const std::size_t at = start + lane;
    const bool is_inside = at < packs;
    float y[wide] = {};
    unsigned most = 0;
    if (is_inside) {
      const auto x = reinterpret_cast<const Pack<In, wide>*>(task.in)[at];
#pragma unroll
      for (int e = 0; e < wide; ++e) y[e] = number(x.v[e]), most = max(most, magnitude(y[e], task.counts_nan));
    }
    for (unsigned d = lanes / 2; d > 0; d /= 2) most = max(most, __shfl_xor_sync(0xFFFFFFFFu, most, d));
    if (!is_inside) continue;
    const BlockScale s = scale_of(most, tensor, task);
    round_elements(y, s.encode, wide * at, 1, task);
    Pack<Out, wide> z;
#pragma unroll
    for (int e = 0; e < wide; ++e) put(&z.v[e], y[e] * s.stored);
    reinterpret_cast<Pack<Out, wide>*>(out)[at] = z;
  }
}

// A thread has a run of any length: its elements lie `step` apart. Runs down the columns of neighbours are read
// together.
template <class In, class Out>
__global__ void __launch_bounds__(threads) a_run_a_thread(const __grid_constant__ Task<In> task, Out* out) {
  const TensorScale tensor = tensor_of(task);
  const std::size_t length = task.format.block_cols;
  const std::size_t outer = task.over_rows ? task.cols : task.rows, sum = task.over_rows ? task.rows : task.cols;
  const std::size_t step = task.over_rows ? task.cols : 1, line = task.over_rows ? 1 : task.cols;
  const std::size_t at = blockIdx.x * static_cast<std::size_t>(threads) + threadIdx.x;
  if (at >= outer) return;
  for (std::size_t first = blockIdx.y * length; first < sum; first += gridDim.y * length) {
    const std::size_t start = at * line + first * step, n = min(length, sum - first), whole = n / wide * wide;
    const In* in = task.in + start;
    unsigned most = 0;
    const auto see = [&](std::size_t i) { most = max(most, magnitude(number(in[i * step]), task.counts_nan)); };
    for (std::size_t i = 0; i < whole; i += wide)
#pragma unroll
      for (int e = 0; e < wide; ++e) see(i + e);
    for (std::size_t i = whole; i < n; ++i) see(i);
    BlockScale s;
    if (task.tries_two) {
      FourOverSix both = two_scales(__uint_as_float(most), tensor, LaneToE4m3{task.of_scale});
      for (int which = 0; which < 2; ++which)
        for (std::size_t i = 0; i < n; ++i) try_element(both, which, 0, start + i * step, tensor, task);
      s = both.better();
    } else {
      s = scale_of(most, tensor, task);
    }
    const auto write = [&]<int N>(std::size_t i) {
      float y[N];
#pragma unroll
      for (int e = 0; e < N; ++e) y[e] = number(in[(i + e) * step]);
      round_elements(y, s.encode, at * sum + first + i, 1, task);
#pragma unroll
      for (int e = 0; e < N; ++e) put(out + start + (i + e) * step, y[e] * s.stored);
    };
    for (std::size_t i = 0; i < whole; i += wide) write.template operator()<wide>(i);
    for (std::size_t i = whole; i < n; ++i) write.template operator()<1>(i);
  }
}

template <class In, class Out>
__global__ void __launch_bounds__(threads) tiles(const __grid_constant__ Task<In> task, Out* out) {
  const TensorScale tensor = tensor_of(task);
  __shared__ unsigned most;
  __shared__ BlockScale scale;
  const std::size_t across = (task.cols + task.format.block_cols - 1) / task.format.block_cols;
  const std::size_t top = blockIdx.x / across * task.format.block_rows;
  const std::size_t left = blockIdx.x % across * task.format.block_cols;
  const auto height = static_cast<unsigned>(min(task.format.block_rows, task.rows - top));
  const auto width = static_cast<unsigned>(min(task.format.block_cols, task.cols - left));
  if (threadIdx.x == 0) most = 0;
  __syncthreads();
  const auto place_of = [&](unsigned i) { return (top + i / width) * task.cols + left + i % width; };
  unsigned mine = 0;
  for (unsigned i = threadIdx.x; i < height * width; i += threads)
    mine = max(mine, magnitude(number(task.in[place_of(i)]), task.counts_nan));
  mine = __reduce_max_sync(0xFFFFFFFFu, mine);
  if (threadIdx.x % 32 == 0) atomicMax(&most, mine);
  __syncthreads();
  if (task.tries_two) {  // a thread has a row, under one of the scales
    __shared__ FourOverSix both;
    if (threadIdx.x == 0) both = two_scales(__uint_as_float(most), tensor, LaneToE4m3{task.of_scale});
    __syncthreads();
    const unsigned row = threadIdx.x / 2;
    for (unsigned i = 0; row < height && i < width; ++i)
      try_element(both, static_cast<int>(threadIdx.x % 2), row, (top + row) * task.cols + left + i, tensor, task);
    __syncthreads();
    if (threadIdx.x == 0) scale = both.better();
  } else if (threadIdx.x == 0) {
    scale = scale_of(most, tensor, task);
  }
  __syncthreads();
  const BlockScale s = scale;
  for (unsigned i = threadIdx.x; i < height * width; i += threads) {
    const std::size_t place = place_of(i);
    float y[1] = {number(task.in[place])};
    round_elements(y, s.encode, task.over_rows ? (left + i % width) * task.rows + top + i / width : place, 1, task);
    put(out + place, y[0] * s.stored);
  }
}

// A thread has a run; rows that are left over are copied.
template <class In>
__global__ void __launch_bounds__(threads) turn_rows(const In* in, float* out, std::size_t rows, std::size_t cols) {
  const std::size_t col = blockIdx.x * static_cast<std::size_t>(threads) + threadIdx.x;
  if (col >= cols) return;
  for (std::size_t top = blockIdx.y * hadamard_size; top < rows; top += gridDim.y * hadamard_size) {
    const std::size_t start = top * cols + col;
    if (top + hadamard_size > rows) {
      for (std::size_t i = 0; top + i < rows; ++i) out[start + i * cols] = number(in[start + i * cols]);
      return;
    }
    float run[hadamard_size];
#pragma unroll
    for (std::size_t i = 0; i < hadamard_size; ++i) run[i] = number(in[start + i * cols]);
    turn_by_hadamard(run);
#pragma unroll
    for (std::size_t i = 0; i < hadamard_size; ++i) out[start + i * cols] = run[i];
  }
}

struct Finish {
  const float *first, *second, *bias;
  LanePlan plan;
  bool rounds;
};

__device__ float rounded(float x, const LanePlan& p) {
  const bool nearest = p.cast.rounding == Rounding::nearest_even;
  if (p.way == LaneWay::anchor && nearest) return round_lane<LaneWay::anchor, Rounding::nearest_even>(x, p);
  if (p.way == LaneWay::field && nearest) return round_lane<LaneWay::field, Rounding::nearest_even>(x, p);
  return round_general(x, p, 0);
}

// N: elements of a row that a thread has at once.
template <int N, class Out>
__global__ void __launch_bounds__(threads)
    finish(const float* d, Out* out, std::size_t count, std::size_t cols, const __grid_constant__ Finish f) {
  const float one = f.first != nullptr ? *f.first : 1, two = f.second != nullptr ? *f.second : 1, both = one * two;
  const unsigned field = __float_as_uint(both) & infinity;
  const bool is_normal = field != 0 && field != infinity;
  const float first = is_normal ? both : one, second = is_normal ? 1 : two;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * threads;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(threads) + threadIdx.x; i < count / N; i += step) {
    const auto x = reinterpret_cast<const Pack<float, N>*>(d)[i];
    const float* bias = f.bias == nullptr ? nullptr : f.bias + i * N % cols;
    Pack<Out, N> y;
#pragma unroll
    for (int e = 0; e < N; ++e) {
      float z = x.v[e] * first * second;
      if (bias != nullptr) z = z + bias[e];
      put(&y.v[e], f.rounds ? rounded(z, f.plan) : z);
    }
    reinterpret_cast<Pack<Out, N>*>(out)[i] = y;
  }
}

unsigned grid_of(std::size_t work) { return static_cast<unsigned>((work + threads - 1) / threads); }
// The second dimension of a grid, within what there may be; kernels go on from there.
unsigned down(std::size_t work) { return static_cast<unsigned>(std::clamp<std::size_t>(work, 1, 65535)); }

template <class In, class Out>
void launch(const In* in, Out* out, std::size_t rows, std::size_t cols, const BlockFormat& f, bool over_rows,
            std::optional<std::uint64_t> seed, float* amax_and_decode, GpuStream stream) {
  auto* amax = reinterpret_cast<unsigned*>(amax_and_decode);
  const std::size_t count = rows * cols;
  Cast cast = element_cast(f);
  if (seed) cast.rounding = Rounding::stochastic;
  const Task<In> task{.in = in,
                      .rows = rows,
                      .cols = cols,
                      .format = f,
                      .element = E8m0Element(f.element),
                      .plan = lane_plan(f.element, cast),
                      .nearest = lane_plan(f.element, element_cast(f)),
                      .of_scale = lane_plan("e4m3"_fmt, {.overflow = Overflow::saturate}),
                      .amax = amax,
                      .decode = amax_and_decode + 1,
                      .counts_nan = takes_nan(f.rule),
                      .has_tensor_scale = f.has_tensor_scale(),
                      .tries_two = tries_two_scales(f.rule),
                      .over_rows = over_rows,
                      .seed = seed.value_or(0)};
  constexpr unsigned enough = 132 * 16;  // blocks that fill a GPU
  const unsigned grid = std::max(1u, std::min(enough, grid_of(count / wide)));
  const bool reads_packs = is_packed<wide>(in), is_aligned = reads_packs && is_packed<wide>(out);
  if (f.needs_tensor_amax()) {
    require_cuda(cudaMemsetAsync(amax, 0, sizeof *amax, stream), "clearing an amax");
    find_amax<<<grid, threads, 0, stream>>>(in, count, reads_packs, task.counts_nan, amax);
  }
  const bool in_a_warp =
      f.block_cols != 0 && f.block_cols % wide == 0 && 32 * wide % f.block_cols == 0 && !task.tries_two;
  if (f.block_rows == 0) {  // in packs where the index of random bits is that of the place
    whole_tensor<<<grid, threads, 0, stream>>>(task, out, is_aligned && !(over_rows && seed));
  } else if (f.block_rows != 1 && count != 0) {
    const std::size_t blocks = ((rows + f.block_rows - 1) / f.block_rows) * ((cols + f.block_cols - 1) / f.block_cols);
    tiles<<<std::max(1u, static_cast<unsigned>(blocks)), threads, 0, stream>>>(task, out);
  } else if (!over_rows && is_aligned && in_a_warp && cols % f.block_cols == 0) {
    runs_along_rows<<<grid, threads, 0, stream>>>(task, out);
  } else {
    const std::size_t runs = ((over_rows ? rows : cols) + f.block_cols - 1) / f.block_cols;
    const dim3 shape(std::max(1u, grid_of(over_rows ? cols : rows)), down(runs));
    a_run_a_thread<<<shape, threads, 0, stream>>>(task, out);
  }
  require_launch("scaling an operand");
}

}  // namespace

void scale_operand_on_device(const void* in, ProductWords words, void* out, bool out_is_bf16, std::size_t rows,
                             std::size_t cols, const BlockFormat& format, bool over_rows,
                             std::optional<std::uint64_t> seed, float* amax_and_decode, GpuStream stream) {
  const auto from = [&](const auto* typed) {
    const auto to = [&](auto* result) {
      launch(typed, result, rows, cols, format, over_rows, seed, amax_and_decode, stream);
    };
    out_is_bf16 ? to(static_cast<std::uint16_t*>(out)) : to(static_cast<float*>(out));
  };
  if (words == ProductWords::fp16) from(static_cast<const __half*>(in));
  else if (words == ProductWords::bf16) from(static_cast<const __nv_bfloat16*>(in));
  else from(static_cast<const float*>(in));
}

void turn_by_hadamard_on_device(const void* in, ProductWords words, float* out, std::size_t rows, std::size_t cols,
                                GpuStream stream) {
  if (rows * cols == 0) return;
  const dim3 shape(grid_of(cols), down((rows + hadamard_size - 1) / hadamard_size));
  const auto run = [&](const auto* typed) { turn_rows<<<shape, threads, 0, stream>>>(typed, out, rows, cols); };
  if (words == ProductWords::fp16) run(static_cast<const __half*>(in));
  else if (words == ProductWords::bf16) run(static_cast<const __nv_bfloat16*>(in));
  else run(static_cast<const float*>(in));
  require_launch("a Hadamard transform");
}

void finish_product_on_device(const float* d, void* out, ProductWords words, std::size_t rows, std::size_t cols,
                              const float* first, const float* second, const float* bias,
                              const std::optional<FormatCast>& to, GpuStream stream) {
  if (rows * cols == 0) return;
  const Finish f{first, second, bias, to ? lane_plan(to->format, to->cast) : LanePlan{}, to.has_value()};
  const auto run = [&](auto* typed) {
    const std::size_t count = rows * cols;
    const unsigned grid = std::min(132u * 64, grid_of(count / 4 + 1));
    if (cols % 4 == 0 && is_packed<4>(d) && is_packed<4>(typed))
      finish<4><<<grid, threads, 0, stream>>>(d, typed, count, cols, f);
    else finish<1><<<grid, threads, 0, stream>>>(d, typed, count, cols, f);
  };
  if (words == ProductWords::fp16) run(static_cast<__half*>(out));
  else if (words == ProductWords::bf16) run(static_cast<__nv_bfloat16*>(out));
  else run(static_cast<float*>(out));
  require_launch("the end of a product");
}

}  // namespace narrow
