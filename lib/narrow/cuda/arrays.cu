// The array kernels: casts at the speed of memory, statistics and histograms at the speed of reading.
#include "narrow/array/thresholds.hpp"
#include "narrow/base/random.hpp"
#include "narrow/cuda/arrays.hpp"
#include "narrow/cuda/cast_lane.cuh"
#include "narrow/cuda/launch.cuh"

namespace narrow {

namespace {

using namespace detail;

constexpr int threads = 256;
// Vectors of four elements that a thread has in flight: as many as make 64 bytes.
template <class In>
constexpr int quads = 16 / static_cast<int>(sizeof(In));

template <class Out>
struct alignas(4 * sizeof(Out)) Quad {
  Out v[4];
};

// out[i] = operation(in[i], i). The operation is a type, with its numbers inside.
template <class Operation, class In, class Out>
__global__ void __launch_bounds__(threads) transform(const In* in, Out* out, std::size_t count, Operation operation) {
  constexpr int in_flight = quads<In>;
  const std::size_t block = static_cast<std::size_t>(threads) * in_flight * 4, start = blockIdx.x * block;
  const bool aligned = (reinterpret_cast<std::uintptr_t>(in) % sizeof(Quad<In>)) == 0 &&
                       (reinterpret_cast<std::uintptr_t>(out) % sizeof(Quad<Out>)) == 0;
  if (aligned && start + block <= count) {
    Quad<In> x[in_flight];
#pragma unroll
    for (int q = 0; q < in_flight; ++q) x[q] = reinterpret_cast<const Quad<In>*>(in + start)[q * threads + threadIdx.x];
#pragma unroll
    for (int q = 0; q < in_flight; ++q) {
      Quad<Out> y;
#pragma unroll
      for (int e = 0; e < 4; ++e) y.v[e] = operation(x[q].v[e], start + 4 * (q * threads + threadIdx.x) + e);
      reinterpret_cast<Quad<Out>*>(out + start)[q * threads + threadIdx.x] = y;
    }
    return;
  }
  for (std::size_t i = start + threadIdx.x; i < count && i < start + block; i += threads) out[i] = operation(in[i], i);
}

template <class Operation, class In, class Out>
void launch_transform(const In* in, Out* out, std::size_t count, const Operation& operation, GpuStream stream) {
  if (count == 0) return;
  const std::size_t block = static_cast<std::size_t>(threads) * quads<In> * 4;
  transform<<<static_cast<unsigned>((count + block - 1) / block), threads, 0, stream>>>(in, out, count, operation);
  require_launch("array kernel");
}

// Once in the program, not once in each unrolled loop: the general way is long.
__noinline__ __device__ Code encode_general(float x, const LanePlan& p, std::uint64_t random) {
  return encode(x, p.format, p.cast, random);
}
__noinline__ __device__ float decode_general(Code code, const Format& f) { return static_cast<float>(decode(code, f)); }

template <LaneWay W, bool Nearest, class Out>
struct EncodeOp {
  LanePlan plan;
  std::uint64_t seed;
  __device__ Out operator()(float x, std::size_t i) const {
    if constexpr (W == LaneWay::general) return static_cast<Out>(encode_general(x, plan, random_bits(seed, i)));
    else return static_cast<Out>(encode_lane<W, Nearest>(x, plan));
  }
};
template <LaneWay W, bool Nearest>
struct RoundOp {
  LanePlan plan;
  std::uint64_t seed;
  __device__ float operator()(float x, std::size_t i) const {
    if constexpr (W == LaneWay::general)
      return decode_general(encode_general(x, plan, random_bits(seed, i)), plan.format);
    else return round_lane<W, Nearest>(x, plan);
  }
};

// Codes whose value is a shifted word times a power of two; NaN and Inf by comparison.
template <class In>
struct DecodeOp {
  int shift, sign_shift;
  float scale;
  unsigned magnitude_mask, max_magnitude, infinity, special;  // a NaN keeps its payload and is quiet
  __device__ float operator()(In code, std::size_t) const {
    const unsigned magnitude = code & magnitude_mask, sign = static_cast<unsigned>(code) << sign_shift & 0x80000000u;
    float value = __uint_as_float(magnitude << shift) * scale;
    if (magnitude > max_magnitude)
      value = __uint_as_float(special | magnitude << shift | (magnitude > infinity ? 0x400000u : 0u));
    return __uint_as_float(__float_as_uint(value) | sign);
  }
};
template <class In>
struct DecodeGeneralOp {
  Format format;
  __device__ float operator()(In code, std::size_t) const { return decode_general(code, format); }
};

template <class In>
void launch_decode(const In* in, float* out, std::size_t count, const Format& f, GpuStream stream) {
  const bool plain = f.has_sign && f.has_zero && !f.is_integer() && f.specials != Specials::nan_is_negative_zero &&
                     f.exponent_bits <= 8 && f.mantissa_bits <= 23 && f.bias <= 127 && f.bias >= 1 &&
                     f.max_exponent() <= 127 && f.width() <= static_cast<int>(8 * sizeof(In));
  if (!plain) return launch_transform(in, out, count, DecodeGeneralOp<In>{f}, stream);
  const DecodeOp<In> op{23 - f.mantissa_bits,
                        32 - f.width(),
                        static_cast<float>(compose(false, 1, 127 - f.bias)),
                        static_cast<unsigned>(f.magnitude_mask()),
                        static_cast<unsigned>(f.max_magnitude()),
                        static_cast<unsigned>(f.has_infinity() ? f.infinity_code() : f.max_magnitude()),
                        0x7F800000u};
  launch_transform(in, out, count, op, stream);
}

template <template <LaneWay, bool, class...> class Op, class In, class Out, class... Rest>
void choose(const In* in, Out* out, std::size_t count, const Format& f, const Cast& cast, std::uint64_t seed,
            GpuStream stream) {
  const LanePlan plan = lane_plan(f, cast);
  const bool nearest = cast.rounding == Rounding::nearest_even;
  const auto run = [&](const auto& op) { launch_transform(in, out, count, op, stream); };
  if (plan.way == LaneWay::general) run(Op<LaneWay::general, true, Rest...>{plan, seed});
  else if (plan.way == LaneWay::field && nearest) run(Op<LaneWay::field, true, Rest...>{plan, seed});
  else if (plan.way == LaneWay::field) run(Op<LaneWay::field, false, Rest...>{plan, seed});
  else if (nearest) run(Op<LaneWay::anchor, true, Rest...>{plan, seed});
  else run(Op<LaneWay::anchor, false, Rest...>{plan, seed});
}

template <LaneWay W, bool Nearest, class... Out>
using EncodeAs = EncodeOp<W, Nearest, Out...>;
template <LaneWay W, bool Nearest, class...>
using RoundAs = RoundOp<W, Nearest>;

void require_width(const Format& f, int bits) {
  if (f.width() > bits)
    throw Error("gpu: a format of " + std::to_string(f.width()) + " bits does not fit codes of " +
                std::to_string(bits) + " bits");
}

// ---- statistics: elements that cannot overflow in a few instructions; sums of sixteen in float, then in double.
struct Limits {
  unsigned overflow_from, smallest_normal;  // magnitudes as float words
};

struct Partial {
  unsigned zeros = 0, nan = 0, inf = 0, zeros_after = 0, below_normal = 0, overflow = 0, saturated = 0, compared = 0;
  double sum = 0, squared_error = 0, signal = 0;
  unsigned amax = 0, min_less_one = ~0u;  // the smallest non-zero word, less one: a zero is then the largest of all
  float max_relative = 0;
};

__device__ inline void merge(Partial& t, const Partial& u) {
  t.zeros += u.zeros, t.nan += u.nan, t.inf += u.inf, t.zeros_after += u.zeros_after, t.below_normal += u.below_normal;
  t.overflow += u.overflow, t.saturated += u.saturated, t.compared += u.compared;
  t.sum += u.sum, t.squared_error += u.squared_error, t.signal += u.signal;
  t.amax = max(t.amax, u.amax), t.min_less_one = min(t.min_less_one, u.min_less_one),
  t.max_relative = fmaxf(t.max_relative, u.max_relative);
}

// Any element, slowly. The result is a Partial of its own: an address taken of the running one would move that to
// memory.
template <LaneWay W, bool Nearest>
__device__ __noinline__ Partial look_closely(float x, const LanePlan& p, const Limits& limits) {
  Partial t;
  const unsigned a = __float_as_uint(x) & 0x7FFFFFFFu;
  t.nan += a > 0x7F800000u ? 1 : 0, t.inf += a == 0x7F800000u ? 1 : 0;
  if (a >= 0x7F800000u) return t;
  const float r = round_lane<W, Nearest>(x, p);
  const unsigned b = __float_as_uint(r) & 0x7FFFFFFFu;
  t.amax = max(t.amax, a), t.min_less_one = min(t.min_less_one, a - 1);
  t.zeros += a == 0 ? 1 : 0, t.zeros_after += b == 0 ? 1 : 0, t.below_normal += b < limits.smallest_normal ? 1 : 0;
  const bool over = a >= limits.overflow_from;
  t.overflow += over ? 1 : 0, t.saturated += over && b < 0x7F800000u ? 1 : 0;
  t.sum += static_cast<double>(x);
  if (b >= 0x7F800000u) return t;
  ++t.compared;
  const double e = static_cast<double>(r) - static_cast<double>(x);
  t.squared_error += e * e, t.signal += static_cast<double>(x) * static_cast<double>(x);
  if (a != 0) t.max_relative = fmaxf(t.max_relative, static_cast<float>(fabs(e) / fabs(static_cast<double>(x))));
  return t;
}

// Sixteen elements. Squares beyond what float holds send all of them the slow way.
template <LaneWay W, bool Nearest>
__device__ inline void look_at_sixteen(Partial& t, const Quad<float> (&x)[4], const LanePlan& p, const Limits& limits) {
  unsigned top = 0, bottom = ~0u, zeros = 0, zeros_after = 0, below = 0;
  float sum = 0, error = 0, signal = 0;
  bool worse = false;
#pragma unroll
  for (int q = 0; q < 4; ++q)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const unsigned a = __float_as_uint(x[q].v[e]) & 0x7FFFFFFFu;
      float r;
      if constexpr (W == LaneWay::field) {
        r = __uint_as_float(lane_magnitude<W, Nearest>(a, p) << p.shift);
      } else {
        const float anchor =
            __uint_as_float(max(a & 0x7F800000u, p.min_field) + (static_cast<unsigned>(p.shift) << 23));
        r = (Nearest ? __fadd_rn(__uint_as_float(a), anchor) : __fadd_rz(__uint_as_float(a), anchor)) - anchor;
      }
      const float d = r - __uint_as_float(a);
      top = max(top, a), bottom = min(bottom, a - 1);
      zeros += a == 0 ? 1 : 0, zeros_after += r == 0 ? 1 : 0,
          below += __float_as_uint(r) < limits.smallest_normal ? 1 : 0;
      sum += x[q].v[e];
      error = __fmaf_rn(d, d, error), signal = __fmaf_rn(__uint_as_float(a), __uint_as_float(a), signal);
      worse |= fabsf(d) > t.max_relative * __uint_as_float(a);
    }
  const bool squares_fit = signal < 0x1p100f && (signal > 0x1p-80f || top == 0);
  if (top >= limits.overflow_from || !squares_fit || top >= 0x7F000000u - (static_cast<unsigned>(p.shift) << 23)) {
#pragma unroll
    for (int i = 0; i < 16; ++i) merge(t, look_closely<W, Nearest>(x[i / 4].v[i % 4], p, limits));
    return;
  }
  t.amax = max(t.amax, top), t.min_less_one = min(t.min_less_one, bottom);
  t.zeros += zeros, t.zeros_after += zeros_after, t.below_normal += below, t.compared += 16;
  t.sum += static_cast<double>(sum), t.squared_error += static_cast<double>(error),
      t.signal += static_cast<double>(signal);
  if (worse)
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float v = fabsf(x[i / 4].v[i % 4]), r = fabsf(round_lane<W, Nearest>(v, p));
      if (v != 0) t.max_relative = fmaxf(t.max_relative, fabsf(r - v) / v);
    }
}

template <class T>
__device__ inline T warp_sum(T v) {
  for (int s = 16; s > 0; s /= 2) v += __shfl_down_sync(~0u, v, s);
  return v;
}

template <LaneWay W, bool Nearest>
__global__ void __launch_bounds__(threads)
    statistics_kernel(const float* data, std::size_t count, LanePlan p, Limits limits, DeviceStatistics* out) {
  __shared__ DeviceStatistics block;
  if (threadIdx.x == 0) block = {};
  __syncthreads();
  Partial t;
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * threads,
                    thread = blockIdx.x * static_cast<std::size_t>(threads) + threadIdx.x;
  const std::size_t vectors = reinterpret_cast<std::uintptr_t>(data) % 16 == 0 ? count / 4 : 0;
  const auto* four = reinterpret_cast<const Quad<float>*>(data);
  std::size_t i = thread;
  for (; i + 3 * stride < vectors; i += 4 * stride) {
    Quad<float> x[4];
#pragma unroll
    for (int q = 0; q < 4; ++q) x[q] = four[i + q * stride];
    // The largest error of the warp so far: then a new one is rare, and the divisions that it takes are as well.
    t.max_relative = __uint_as_float(__reduce_max_sync(__activemask(), __float_as_uint(t.max_relative)));
    look_at_sixteen<W, Nearest>(t, x, p, limits);
  }
  for (; i < vectors; i += stride)
    for (int e = 0; e < 4; ++e) merge(t, look_closely<W, Nearest>(four[i].v[e], p, limits));
  for (std::size_t e = 4 * vectors + thread; e < count; e += stride)
    merge(t, look_closely<W, Nearest>(data[e], p, limits));
  __syncwarp();
  // Warps add to their block's record, and blocks to the one in memory, where all queue for the same addresses.
  const bool is_first = (threadIdx.x & 31) == 0;
  const auto add = [&](unsigned long long& to, unsigned v) {
    const unsigned total = warp_sum(v);
    if (is_first && total != 0) atomicAdd(&to, static_cast<unsigned long long>(total));
  };
  add(block.zeros, t.zeros), add(block.nan, t.nan), add(block.inf, t.inf);
  add(block.underflow, t.zeros_after - t.zeros), add(block.subnormal, t.below_normal - t.zeros_after);
  add(block.overflow, t.overflow), add(block.saturated, t.saturated), add(block.compared, t.compared);
  const auto add_double = [&](double& to, double v) {
    const double total = warp_sum(v);
    if (is_first) atomicAdd(&to, total);
  };
  add_double(block.sum, t.sum), add_double(block.squared_error, t.squared_error), add_double(block.signal, t.signal);
  const unsigned amax = __reduce_max_sync(~0u, t.amax), smallest = __reduce_min_sync(~0u, t.min_less_one);
  const unsigned relative = __reduce_max_sync(~0u, __float_as_uint(t.max_relative));
  if (is_first) {
    atomicMax(&block.amax, amax), atomicMax(&block.max_relative_error, relative);
    if (smallest < 0x7F800000u) atomicMax(&block.min_nonzero_inverted, ~(smallest + 1));
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) block.count = count;
  const auto pass_on = [&](auto DeviceStatistics::*field) {
    if (block.*field != 0) atomicAdd(&(out->*field), block.*field);
  };
  pass_on(&DeviceStatistics::count), pass_on(&DeviceStatistics::zeros), pass_on(&DeviceStatistics::nan);
  pass_on(&DeviceStatistics::inf), pass_on(&DeviceStatistics::underflow), pass_on(&DeviceStatistics::subnormal);
  pass_on(&DeviceStatistics::overflow), pass_on(&DeviceStatistics::saturated), pass_on(&DeviceStatistics::compared);
  pass_on(&DeviceStatistics::sum), pass_on(&DeviceStatistics::squared_error), pass_on(&DeviceStatistics::signal);
  atomicMax(&out->amax, block.amax), atomicMax(&out->max_relative_error, block.max_relative_error);
  atomicMax(&out->min_nonzero_inverted, block.min_nonzero_inverted);
}

// ---- histogram: counts in shared memory, a copy for every two warps so that equal exponents do not queue.
constexpr int copies = 4;

__global__ void __launch_bounds__(threads)
    histogram_kernel(const float* data, std::size_t count, DeviceHistogram* out) {
  __shared__ unsigned fields[copies][512];
  for (int i = static_cast<int>(threadIdx.x); i < copies * 512; i += threads) fields[i / 512][i % 512] = 0;
  __syncthreads();
  unsigned* mine = fields[threadIdx.x / 32 % copies];
  unsigned zero[2] = {}, inf[2] = {}, largest[2] = {};
  const auto look = [&](float x) {
    const unsigned word = __float_as_uint(x);
    // As signed numbers the words of positive floats are the largest, as unsigned ones those of negative floats; what
    // is not finite (of either sign) becomes a zero.
    const unsigned finite = (word & 0x7F800000u) == 0x7F800000u ? 0u : word;
    largest[0] = static_cast<unsigned>(max(static_cast<int>(largest[0]), static_cast<int>(finite)));
    largest[1] = max(largest[1], finite);
    atomicAdd(&mine[word >> 23], 1u);
    zero[0] += word == 0 ? 1 : 0, zero[1] += word == 0x80000000u ? 1 : 0;
    inf[0] += word == 0x7F800000u ? 1 : 0, inf[1] += word == 0xFF800000u ? 1 : 0;
  };
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * threads,
                    thread = blockIdx.x * static_cast<std::size_t>(threads) + threadIdx.x;
  const std::size_t vectors = reinterpret_cast<std::uintptr_t>(data) % 16 == 0 ? count / 4 : 0;
  const auto* four = reinterpret_cast<const Quad<float>*>(data);
  std::size_t i = thread;
  for (; i + 3 * stride < vectors; i += 4 * stride) {
    Quad<float> x[4];
#pragma unroll
    for (int q = 0; q < 4; ++q) x[q] = four[i + q * stride];
#pragma unroll
    for (int q = 0; q < 4; ++q)
#pragma unroll
      for (int e = 0; e < 4; ++e) look(x[q].v[e]);
  }
  for (; i < vectors; i += stride)
    for (int e = 0; e < 4; ++e) look(four[i].v[e]);
  for (std::size_t e = 4 * vectors + thread; e < count; e += stride) look(data[e]);
  __syncthreads();
  for (int f = static_cast<int>(threadIdx.x); f < 512; f += threads) {
    unsigned long long sum = 0;
    for (int c = 0; c < copies; ++c) sum += fields[c][f];
    if (sum != 0) atomicAdd(&out->by_field[f], sum);
  }
  for (int s = 0; s < 2; ++s) {
    const unsigned zeros = warp_sum(zero[s]), infs = warp_sum(inf[s]);
    if ((threadIdx.x & 31) == 0 && zeros != 0) atomicAdd(&out->zero[s], static_cast<unsigned long long>(zeros));
    if ((threadIdx.x & 31) == 0 && infs != 0) atomicAdd(&out->inf[s], static_cast<unsigned long long>(infs));
  }
  const unsigned up = __reduce_max_sync(~0u, largest[0]), down = __reduce_max_sync(~0u, largest[1]);
  if ((threadIdx.x & 31) == 0) {
    atomicMax(&out->largest[0], up);
    if (down > 0x80000000u) atomicMax(&out->largest[1], down & 0x7FFFFFFFu);
  }
}

__global__ void take_kernel(unsigned long long* records, unsigned long long* pages, std::size_t words) {
  for (std::size_t i = threadIdx.x; i < words; i += threads) pages[i] = records[i], records[i] = 0;
}

}  // namespace

void round_on_device(const float* in, float* out, std::size_t count, const Format& f, const Cast& cast,
                     std::uint64_t seed, GpuStream stream) {
  choose<RoundAs>(in, out, count, f, cast, seed, stream);
}
void encode_on_device(const float* in, std::uint8_t* out, std::size_t count, const Format& f, const Cast& cast,
                      std::uint64_t seed, GpuStream stream) {
  require_width(f, 8);
  choose<EncodeAs, float, std::uint8_t, std::uint8_t>(in, out, count, f, cast, seed, stream);
}
void encode_on_device(const float* in, std::uint16_t* out, std::size_t count, const Format& f, const Cast& cast,
                      std::uint64_t seed, GpuStream stream) {
  require_width(f, 16);
  choose<EncodeAs, float, std::uint16_t, std::uint16_t>(in, out, count, f, cast, seed, stream);
}
void encode_on_device(const float* in, std::uint32_t* out, std::size_t count, const Format& f, const Cast& cast,
                      std::uint64_t seed, GpuStream stream) {
  require_width(f, 32);
  choose<EncodeAs, float, std::uint32_t, std::uint32_t>(in, out, count, f, cast, seed, stream);
}
void decode_on_device(const std::uint8_t* in, float* out, std::size_t count, const Format& f, GpuStream stream) {
  launch_decode(in, out, count, f, stream);
}
void decode_on_device(const std::uint16_t* in, float* out, std::size_t count, const Format& f, GpuStream stream) {
  launch_decode(in, out, count, f, stream);
}
void decode_on_device(const std::uint32_t* in, float* out, std::size_t count, const Format& f, GpuStream stream) {
  launch_decode(in, out, count, f, stream);
}

bool has_device_statistics(const FormatCast& to) { return lane_plan(to.format, to.cast).way != LaneWay::general; }

void statistics_on_device(const float* data, std::size_t count, const FormatCast& to, DeviceStatistics* out,
                          GpuStream stream) {
  const LanePlan plan = lane_plan(to.format, to.cast);
  if (!has_device_statistics(to))
    throw Error(
        "gpu: statistics on the device take IEEE-like formats with nearest_even or toward_zero; others: statistics() "
        "on the host");
  const Limits limits{find_overflow(to, false, 0),
                      std::bit_cast<unsigned>(static_cast<float>(smallest_normal(to.format)))};
  const bool nearest = to.cast.rounding == Rounding::nearest_even;
  const int blocks = grid_blocks(threads) / 2;
  const auto run = [&](auto* kernel) { kernel<<<blocks, threads, 0, stream>>>(data, count, plan, limits, out); };
  if (plan.way == LaneWay::field)
    nearest ? run(statistics_kernel<LaneWay::field, true>) : run(statistics_kernel<LaneWay::field, false>);
  else nearest ? run(statistics_kernel<LaneWay::anchor, true>) : run(statistics_kernel<LaneWay::anchor, false>);
  require_launch("statistics");
}

void histogram_on_device(const float* data, std::size_t count, DeviceHistogram* out, GpuStream stream) {
  histogram_kernel<<<grid_blocks(threads) / 2, threads, 0, stream>>>(data, count, out);
  require_launch("histogram");
}

void take_from_device(void* records, void* pages, std::size_t bytes, GpuStream stream) {
  using Word = unsigned long long;
  take_kernel<<<1, threads, 0, stream>>>(static_cast<Word*>(records), static_cast<Word*>(pages), bytes / sizeof(Word));
  require_launch("taking records");
}

Statistics DeviceStatistics::host(double scale) const {
  Statistics s;
  s.scale = scale;
  s.input.count = count, s.input.zeros = zeros, s.input.nan = nan, s.input.inf = inf, s.input.sum = sum;
  s.input.amax = std::bit_cast<float>(amax);
  s.input.min_nonzero = min_nonzero_inverted == 0 ? 0 : std::bit_cast<float>(~min_nonzero_inverted);
  FormatStatistics f;
  f.underflow = underflow, f.subnormal = subnormal, f.overflow = overflow, f.saturated = saturated,
  f.compared = compared, f.not_finite = s.input.finite() - compared;
  f.squared_error = squared_error, f.signal = signal, f.max_relative_error = std::bit_cast<float>(max_relative_error);
  s.formats.push_back(f);
  return s;
}

ExponentHistogram DeviceHistogram::host() const {
  ExponentHistogram h;
  for (std::size_t e = 1; e < 255; ++e) h.binades[e - 1] = {by_field[256 + e], by_field[e]};
  h.zero = {zero[1], zero[0]}, h.inf = {inf[1], inf[0]};
  h.subnormal = {by_field[256] - zero[1], by_field[0] - zero[0]};
  h.nan = {by_field[511] - inf[1], by_field[255] - inf[0]};
  return h;
}

}  // namespace narrow
