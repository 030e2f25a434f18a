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
  std::size_t block_rows, block_cols;
  BlockScaling scaling;
  LanePlan plan, nearest;  // nearest: by which scales are chosen
  const unsigned* amax;    // of the whole tensor, where it is needed
  float* decode;
  bool counts_nan;
  bool has_tensor_scale;  // asked on the host: the table of rules is not on the device
  bool over_rows;         // then the matrix is the transposed one, and so is the index of random bits
  std::uint64_t seed;
};

__device__ float number(float x) { return x; }
__device__ float number(__half x) { return __half2float(x); }
__device__ float number(__nv_bfloat16 x) { return __bfloat162float(x); }

// Four that lie side by side, read at once.
template <class In>
struct alignas(4 * sizeof(In)) Quad {
  In v[4];
};
template <class In>
__host__ __device__ bool are_quads(const In* in) {
  return reinterpret_cast<std::uintptr_t>(in) % sizeof(Quad<In>) == 0;
}

// Bits of |x|, by which magnitudes are ordered; NaN is above all, or not there.
__device__ unsigned magnitude(float x, bool counts_nan) {
  const unsigned word = __float_as_uint(x) & 0x7FFFFFFFu;
  return word > infinity && !counts_nan ? 0 : word;
}

__noinline__ __device__ float round_general(float x, const LanePlan& p, std::uint64_t random) {
  return static_cast<float>(decode(encode(x, p.format, p.cast, random), p.format));
}

template <class In>
__device__ float element_of(std::size_t place, float encode, const Task<In>& task) {
  const float scaled = scaled_element(number(task.in[place]), encode, task.scaling.format);
  if (task.plan.way == LaneWay::anchor) return round_lane<LaneWay::anchor, true>(scaled, task.plan);
  if (task.plan.way == LaneWay::field) return round_lane<LaneWay::field, true>(scaled, task.plan);
  const std::size_t index = task.over_rows ? place % task.cols * task.rows + place / task.cols : place;
  return round_general(scaled, task.plan, random_bits(task.seed, index));
}

// What rounding to nearest makes of an element under one of two scales, whatever its own rounding is.
template <class In>
__device__ void try_element(FourOverSix& both, int which, std::size_t row, std::size_t place,
                            const BlockScaling& scaling, const Task<In>& task) {
  const float x = number(task.in[place]), scaled = scaled_element(x, both.scales[which].encode, scaling.format);
  both.add(which, row, x, round_lane<LaneWay::anchor, true>(scaled, task.nearest), scaling.tensor, scaling.format.rule);
}

__device__ void put(float* out, float x) { *out = x; }
__device__ void put(std::uint16_t* out, float x) { *out = static_cast<std::uint16_t>(__float_as_uint(x) >> 16); }

// The scaling with what it knows of the tensor; one thread says what the product is multiplied by.
template <class In>
__device__ BlockScaling scaling_of(const Task<In>& task) {
  BlockScaling scaling = task.scaling;
  if (task.has_tensor_scale) scaling.tensor = tensor_scale(__uint_as_float(*task.amax), scaling.format);
  if (blockIdx.x == 0 && threadIdx.x == 0)
    *task.decode = task.has_tensor_scale ? decode_factor(1, scaling.tensor, scaling.format) : 1;
  return scaling;
}

template <class In>
__global__ void __launch_bounds__(threads) find_amax(const In* in, std::size_t count, bool counts_nan, unsigned* out) {
  unsigned most = 0;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * threads;
  const std::size_t quads = are_quads(in) ? count / 4 : 0;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(threads) + threadIdx.x; i < quads; i += step) {
    const Quad<In> x = reinterpret_cast<const Quad<In>*>(in)[i];
#pragma unroll
    for (int e = 0; e < 4; ++e) most = max(most, magnitude(number(x.v[e]), counts_nan));
  }
  for (std::size_t i = 4 * quads + blockIdx.x * static_cast<std::size_t>(threads) + threadIdx.x; i < count; i += step)
    most = max(most, magnitude(number(in[i]), counts_nan));
  most = __reduce_max_sync(0xFFFFFFFFu, most);
  if (threadIdx.x % 32 == 0 && most != 0) atomicMax(out, most);
}

template <class In, class Out>
__global__ void __launch_bounds__(threads) whole_tensor(Task<In> task, Out* out) {
  const float amax = __uint_as_float(*task.amax);
  BlockScaling scaling = task.scaling;
  scaling.tensor = tensor_scale(amax, scaling.format);
  const BlockScale s = scaling(amax);
  const std::size_t count = task.rows * task.cols, step = static_cast<std::size_t>(gridDim.x) * threads;
  if (blockIdx.x == 0 && threadIdx.x == 0) *task.decode = s.stored;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(threads) + threadIdx.x; i < count; i += step)
    put(out + i, element_of(i, s.encode, task));
}

// A thread has four elements of a row, block_cols / 4 threads of a warp have a block.
template <class In, class Out>
__global__ void __launch_bounds__(threads) runs_along_rows(Task<In> task, Out* out) {
  const BlockScaling scaling = scaling_of(task);
  const auto lanes = static_cast<unsigned>(task.block_cols / 4);
  const std::size_t per_row = (task.cols + task.block_cols - 1) / task.block_cols * lanes;
  const std::size_t at = blockIdx.x * static_cast<std::size_t>(threads) + threadIdx.x;
  const std::size_t row = at / per_row, col = at % per_row * 4;
  const bool is_inside = row < task.rows && col < task.cols;
  const std::size_t place = row * task.cols + col;
  unsigned most = 0;
  if (is_inside) {
    const Quad<In> x = *reinterpret_cast<const Quad<In>*>(task.in + place);
#pragma unroll
    for (int e = 0; e < 4; ++e) most = max(most, magnitude(number(x.v[e]), task.counts_nan));
  }
  for (unsigned d = lanes / 2; d > 0; d /= 2) most = max(most, __shfl_xor_sync(0xFFFFFFFFu, most, d));
  if (!is_inside) return;
  const BlockScale s = scaling(__uint_as_float(most));
#pragma unroll
  for (int e = 0; e < 4; ++e) put(out + place + e, element_of(place + e, s.encode, task) * s.stored);
}

// A thread has a block of any shape: its elements lie `step` apart. Runs down the columns of neighbours are read
// together.
template <class In, class Out>
__global__ void __launch_bounds__(threads)
    a_block_a_thread(Task<In> task, Out* out, bool over_rows, std::size_t length) {
  const BlockScaling scaling = scaling_of(task);
  const std::size_t outer = over_rows ? task.cols : task.rows, sum = over_rows ? task.rows : task.cols;
  const std::size_t step = over_rows ? task.cols : 1, line = over_rows ? 1 : task.cols;
  const std::size_t at = blockIdx.x * static_cast<std::size_t>(threads) + threadIdx.x;
  const std::size_t block = at / outer, first = block * length;
  if (first >= sum) return;
  const std::size_t start = at % outer * line + first * step, n = min(length, sum - first);
  unsigned most = 0;
  for (std::size_t i = 0; i < n; ++i) most = max(most, magnitude(number(task.in[start + i * step]), task.counts_nan));
  BlockScale s;
  if (tries_two_scales(scaling.format.rule)) {
    FourOverSix both = scaling.two_scales(__uint_as_float(most));
    for (int which = 0; which < 2; ++which)
      for (std::size_t i = 0; i < n; ++i) try_element(both, which, 0, start + i * step, scaling, task);
    s = both.better();
  } else {
    s = scaling(__uint_as_float(most));
  }
  for (std::size_t i = 0; i < n; ++i)
    put(out + start + i * step, element_of(start + i * step, s.encode, task) * s.stored);
}

template <class In, class Out>
__global__ void __launch_bounds__(threads) tiles(Task<In> task, Out* out) {
  const BlockScaling scaling = scaling_of(task);
  __shared__ unsigned most;
  const std::size_t wide = (task.cols + task.block_cols - 1) / task.block_cols;
  const std::size_t top = blockIdx.x / wide * task.block_rows, left = blockIdx.x % wide * task.block_cols;
  const std::size_t height = min(task.block_rows, task.rows - top), width = min(task.block_cols, task.cols - left);
  if (threadIdx.x == 0) most = 0;
  __syncthreads();
  unsigned mine = 0;
  for (std::size_t i = threadIdx.x; i < height * width; i += threads)
    mine = max(mine, magnitude(number(task.in[(top + i / width) * task.cols + left + i % width]), task.counts_nan));
  atomicMax(&most, mine);
  __syncthreads();
  BlockScale s;
  if (tries_two_scales(scaling.format.rule)) {  // a thread has a row, under one of the scales
    __shared__ FourOverSix both;
    if (threadIdx.x == 0) both = scaling.two_scales(__uint_as_float(most));
    __syncthreads();
    const unsigned row = threadIdx.x / 2;
    for (std::size_t i = 0; row < height && i < width; ++i)
      try_element(both, static_cast<int>(threadIdx.x % 2), row, (top + row) * task.cols + left + i, scaling, task);
    __syncthreads();
    if (threadIdx.x == 0) both.scales[0] = both.better();
    __syncthreads();
    s = both.scales[0];
  } else {
    s = scaling(__uint_as_float(most));
  }
  for (std::size_t i = threadIdx.x; i < height * width; i += threads) {
    const std::size_t place = (top + i / width) * task.cols + left + i % width;
    put(out + place, element_of(place, s.encode, task) * s.stored);
  }
}

__global__ void __launch_bounds__(threads) turn_rows(float* x, std::size_t runs, std::size_t cols) {
  const std::size_t at = blockIdx.x * static_cast<std::size_t>(threads) + threadIdx.x;
  if (at >= runs * cols) return;
  float* start = x + at / cols * hadamard_size * cols + at % cols;
  float run[hadamard_size];
#pragma unroll
  for (std::size_t i = 0; i < hadamard_size; ++i) run[i] = start[i * cols];
  turn_by_hadamard(run);
#pragma unroll
  for (std::size_t i = 0; i < hadamard_size; ++i) start[i * cols] = run[i];
}

struct Finish {
  const float *first, *second, *bias;
  LanePlan plan;
  bool rounds;
};

__device__ float rounded(float x, const LanePlan& p) {
  const bool nearest = p.cast.rounding == Rounding::nearest_even;
  if (p.way == LaneWay::anchor && nearest) return round_lane<LaneWay::anchor, true>(x, p);
  if (p.way == LaneWay::field && nearest) return round_lane<LaneWay::field, true>(x, p);
  return round_general(x, p, 0);
}

__device__ void put(__half* out, float x) { *out = __float2half_rn(x); }
__device__ void put(__nv_bfloat16* out, float x) { *out = __float2bfloat16_rn(x); }

template <class Out>
__global__ void __launch_bounds__(threads)
    finish(const float* d, Out* out, std::size_t count, std::size_t cols, Finish f) {
  const float one = f.first != nullptr ? *f.first : 1, two = f.second != nullptr ? *f.second : 1, both = one * two;
  const unsigned field = __float_as_uint(both) & infinity;
  const bool is_normal = field != 0 && field != infinity;
  const float first = is_normal ? both : one, second = is_normal ? 1 : two;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * threads;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(threads) + threadIdx.x; i < count; i += step) {
    float x = d[i] * first * second;
    if (f.bias != nullptr) x = x + f.bias[i % cols];
    put(out + i, f.rounds ? rounded(x, f.plan) : x);
  }
}

unsigned grid_of(std::size_t work) { return static_cast<unsigned>((work + threads - 1) / threads); }

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
                      .block_rows = f.block_rows,
                      .block_cols = f.block_cols,
                      .scaling = BlockScaling(f, {}),
                      .plan = lane_plan(f.element, cast),
                      .nearest = lane_plan(f.element, element_cast(f)),
                      .amax = amax,
                      .decode = amax_and_decode + 1,
                      .counts_nan = takes_nan(f.rule),
                      .has_tensor_scale = f.has_tensor_scale(),
                      .over_rows = over_rows,
                      .seed = seed.value_or(0)};
  constexpr unsigned enough = 132 * 16;  // blocks that fill a GPU
  if (f.needs_tensor_amax()) {
    require_cuda(cudaMemsetAsync(amax, 0, sizeof *amax, stream), "clearing an amax");
    find_amax<<<std::max(1u, std::min(enough, grid_of(count / 4))), threads, 0, stream>>>(in, count, task.counts_nan,
                                                                                          amax);
  }
  const bool is_aligned = cols % 4 == 0 && are_quads(in);
  const bool is_run = f.block_rows == 1, is_warp = f.block_cols >= 4 && f.block_cols % 4 == 0 &&
                                                   128 % f.block_cols == 0 && !tries_two_scales(f.rule);
  if (f.block_rows == 0) {
    whole_tensor<<<std::max(1u, std::min(enough, grid_of(count))), threads, 0, stream>>>(task, out);
  } else if (!is_run) {
    const std::size_t grid = ((rows + f.block_rows - 1) / f.block_rows) * ((cols + f.block_cols - 1) / f.block_cols);
    tiles<<<std::max(1u, static_cast<unsigned>(grid)), threads, 0, stream>>>(task, out);
  } else if (!over_rows && is_aligned && is_warp) {
    const std::size_t lanes = f.block_cols / 4, per_row = (cols + f.block_cols - 1) / f.block_cols * lanes;
    runs_along_rows<<<std::max(1u, grid_of(rows * per_row)), threads, 0, stream>>>(task, out);
  } else {
    const std::size_t sum = over_rows ? rows : cols, outer = over_rows ? cols : rows;
    const std::size_t blocks = (sum + f.block_cols - 1) / f.block_cols * outer;
    a_block_a_thread<<<std::max(1u, grid_of(blocks)), threads, 0, stream>>>(task, out, over_rows, f.block_cols);
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

void turn_by_hadamard_on_device(float* x, std::size_t rows, std::size_t cols, GpuStream stream) {
  const std::size_t runs = rows / hadamard_size;
  if (runs * cols == 0) return;
  turn_rows<<<grid_of(runs * cols), threads, 0, stream>>>(x, runs, cols);
  require_launch("a Hadamard transform");
}

void finish_product_on_device(const float* d, void* out, ProductWords words, std::size_t rows, std::size_t cols,
                              const float* first, const float* second, const float* bias,
                              const std::optional<FormatCast>& to, GpuStream stream) {
  if (rows * cols == 0) return;
  const Finish f{first, second, bias, to ? lane_plan(to->format, to->cast) : LanePlan{}, to.has_value()};
  const unsigned grid = std::min(132u * 64, grid_of(rows * cols));
  const auto run = [&](auto* typed) { finish<<<grid, threads, 0, stream>>>(d, typed, rows * cols, cols, f); };
  if (words == ProductWords::fp16) run(static_cast<__half*>(out));
  else if (words == ProductWords::bf16) run(static_cast<__nv_bfloat16*>(out));
  else run(static_cast<float*>(out));
  require_launch("the end of a product");
}

}  // namespace narrow
