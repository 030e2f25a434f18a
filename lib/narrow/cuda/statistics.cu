// Statistics and histograms of data on the device, in one pass at the speed of reading.
#include "narrow/cuda/code_counts.hpp"
#include "narrow/cuda/tally.cuh"

namespace narrow {

namespace {

using namespace detail;

constexpr int threads = 256;
constexpr std::size_t tile = 16 * threads;  // elements that a block reads at once, sixteen a thread

// ---- statistics: elements that cannot overflow in a few instructions; sums of sixteen in float, then in double

// What sixteen magnitudes round to, as long as none overflows.
template <LaneWay W, Rounding R>
__device__ inline void round_sixteen(const float (&x)[16], float (&r)[16], const LanePlan& p) {
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const unsigned a = magnitude(x[i]);
    if constexpr (W == LaneWay::field) {
      r[i] = __uint_as_float(field_code<R>(a, p.shift, 0) << p.shift);
    } else {
      const float anchor = anchor_of(max(a & 0x7F800000u, p.min_field), p);
      r[i] = __uint_as_float(anchored_sum<R>(__uint_as_float(a), anchor, 0)) - anchor;
    }
  }
}

// Sixteen elements, none of which overflows; signal: the sum of their squares.
__device__ inline void look_at_sixteen(Rounded& t, const float (&x)[16], float signal, const Target& to) {
  const LanePlan& p = to.plan;
  const bool nearest = p.cast.rounding == Rounding::nearest_even;
  float r[16];
  constexpr Rounding even = Rounding::nearest_even, cut = Rounding::toward_zero;
  if (p.way == LaneWay::anchor && nearest) round_sixteen<LaneWay::anchor, even>(x, r, p);
  else if (p.way == LaneWay::anchor) round_sixteen<LaneWay::anchor, cut>(x, r, p);
  else if (nearest) round_sixteen<LaneWay::field, even>(x, r, p);
  else round_sixteen<LaneWay::field, cut>(x, r, p);
  unsigned zeros = 0, below = 0;
  float error = 0;
  bool worse = false;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const float a = fabsf(x[i]), d = r[i] - a;
    zeros += r[i] == 0 ? 1 : 0, below += __float_as_uint(r[i]) < to.smallest_normal ? 1 : 0;
    error = __fmaf_rn(d, d, error);
    worse |= fabsf(d) > t.max_relative * a;
  }
  t.zeros += zeros, t.below_normal += below, t.compared += 16;
  t.squared_error += static_cast<double>(error), t.signal += static_cast<double>(signal);
  if (worse)
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float a = fabsf(x[i]);
      if (a != 0) t.max_relative = fmaxf(t.max_relative, fabsf(r[i] - a) / a);
    }
}

// Of sixteen elements: the largest magnitude and the sum of the squares, which is negative where one is not finite or
// the squares are beyond what float holds: then each is for itself.
struct Sixteen {
  unsigned top;
  float signal;
};

__device__ inline Sixteen see_sixteen(Input& t, const float (&x)[16]) {
  unsigned top = 0, bottom = ~0u, zeros = 0;
  float sum = 0, signal = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const unsigned a = magnitude(x[i]);
    top = max(top, a), bottom = min(bottom, a - 1), zeros += a == 0 ? 1 : 0;
    sum += x[i], signal = __fmaf_rn(x[i], x[i], signal);
  }
  if (!(signal < 0x1p100f) || !(signal > 0x1p-80f || top == 0)) {
#pragma unroll
    for (int i = 0; i < 16; ++i) see(t, x[i]);
    return {top, -1};
  }
  t.amax = max(t.amax, top), t.min_less_one = min(t.min_less_one, bottom);
  t.zeros += zeros, t.sum += static_cast<double>(sum);
  return {top, signal};
}

// ---- histogram: counts in shared memory, a copy for every two warps so that equal exponents do not queue

constexpr int copies = 4;

struct Binades {
  unsigned zero[2] = {}, inf[2] = {}, largest[2] = {};

  __device__ void look(float x, unsigned* fields) {
    const unsigned word = __float_as_uint(x);
    // As signed numbers the words of positive floats are the largest, as unsigned ones those of negative floats; what
    // is not finite (of either sign) becomes a zero.
    const unsigned finite = (word & 0x7F800000u) == 0x7F800000u ? 0u : word;
    largest[0] = static_cast<unsigned>(max(static_cast<int>(largest[0]), static_cast<int>(finite)));
    largest[1] = max(largest[1], finite);
    atomicAdd(&fields[word >> 23], 1u);
    zero[0] += word == 0 ? 1 : 0, zero[1] += word == 0x80000000u ? 1 : 0;
    inf[0] += word == 0x7F800000u ? 1 : 0, inf[1] += word == 0xFF800000u ? 1 : 0;
  }

  __device__ void pass_on(const unsigned (&fields)[copies][512], DeviceHistogram* out) const {
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
};

// ---- one pass for both

template <class In>
struct alignas(16) Vector {
  In v[16 / sizeof(In)];
};

// Up to F formats and, where there is a place for it, the histogram. Tiles in turn; what is no whole tile, one by one.
template <class In, class Read, int F, bool HasBinades>
__global__ void __launch_bounds__(threads)
    tally_kernel(const In* data, std::size_t count, Read read, const __grid_constant__ Targets<F> to,
                 DeviceHistogram* histogram, DeviceStatistics* out) {
  constexpr int lanes = 16 / static_cast<int>(sizeof(In)), vectors = static_cast<int>(sizeof(In));
  __shared__ unsigned fields[HasBinades ? copies : 1][512];
  __shared__ DeviceStatistics block[F == 0 ? 1 : F];
  if constexpr (HasBinades)
    for (int i = static_cast<int>(threadIdx.x); i < copies * 512; i += threads) fields[i / 512][i % 512] = 0;
  if (threadIdx.x < (F == 0 ? 1 : F)) block[threadIdx.x] = {}, block[threadIdx.x].count = blockIdx.x == 0 ? count : 0;
  __syncthreads();
  unsigned* mine = fields[threadIdx.x / 32 % (HasBinades ? copies : 1)];
  const bool draws = HasBinades && histogram != nullptr;
  Binades binades;
  Input in;
  Rounded t[F == 0 ? 1 : F];
  const std::size_t tiles = reinterpret_cast<std::uintptr_t>(data) % 16 == 0 ? count / tile : 0;
  for (std::size_t n = blockIdx.x; n < tiles; n += gridDim.x) {
    const auto* from = reinterpret_cast<const Vector<In>*>(data + n * tile) + threadIdx.x;
    Vector<In> v[vectors];
#pragma unroll
    for (int q = 0; q < vectors; ++q) v[q] = from[q * threads];
    float x[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) x[i] = read(v[i / lanes].v[i % lanes]);
    if (draws)
#pragma unroll
      for (int i = 0; i < 16; ++i) binades.look(x[i], mine);
    if constexpr (F != 0) {
      const Sixteen all = see_sixteen(in, x);
#pragma unroll
      for (int f = 0; f < F; ++f) {
        if (f >= to.count) break;
        // The largest error of the warp so far: then a new one is rare, and the divisions that it takes are as well.
        t[f].max_relative = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(t[f].max_relative)));
        if (all.signal >= 0 && all.top < to.of[f].overflow_from) {
          look_at_sixteen(t[f], x, all.signal, to.of[f]);
        } else {  // read again: an array that is indexed in a loop would lie in memory, always
#pragma unroll 1
          for (int i = 0; i < 16; ++i) {
            const float one = read(data[n * tile + (i / lanes * threads + threadIdx.x) * lanes + i % lanes]);
            if (is_finite(one)) merge(t[f], look_closely(one, to.of[f]));
          }
        }
      }
    }
  }
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * threads;
  for (std::size_t e = tiles * tile + blockIdx.x * threads + threadIdx.x; e < count; e += stride) {
    const float x = read(data[e]);
    if (draws) binades.look(x, mine);
    if constexpr (F != 0) {
      see(in, x);
#pragma unroll
      for (int f = 0; f < F; ++f)
        if (f < to.count && is_finite(x)) merge(t[f], look_closely(x, to.of[f]));
    }
  }
  __syncthreads();
  if constexpr (HasBinades)
    if (draws) binades.pass_on(fields, histogram);
  if constexpr (F != 0) {
#pragma unroll
    for (int f = 0; f < F; ++f)
      if (f < to.count) pass_on(in, t[f], block[f], out + f);
  }
}

template <int F, bool HasBinades, class In, class Read>
void launch_tally(const In* data, std::size_t count, const Read& read, const Targets<F>& to, DeviceHistogram* histogram,
                  DeviceStatistics* out, GpuStream stream) {
  auto* const kernel = tally_kernel<In, Read, F, HasBinades>;
  static thread_local int known_device = -1, wave = 0;  // asking takes microseconds
  int device = 0;
  require_cuda(cudaGetDevice(&device), "asking for the device");
  if (device != known_device) {
    int on_one = 0, processors = 0;
    require_cuda(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "asking for the device");
    require_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&on_one, kernel, threads, 0), "asking for the device");
    wave = on_one * processors, known_device = device;
  }
  // One wave; sixteen more than tiles, for what is left of a tile.
  const std::size_t blocks = std::min<std::size_t>(static_cast<std::size_t>(wave), count / tile + 16);
  kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(data, count, read, to, histogram, out);
  require_launch("statistics");
}

template <class In, class Read>
void launch_tally(const In* data, std::size_t count, const Read& read, std::span<const FormatCast> formats,
                  DeviceHistogram* histogram, DeviceStatistics* out, GpuStream stream) {
  in_groups(formats, histogram, out, [&](const Targets<at_once>& to, auto* h, auto* s, bool) {
    launch_tally<at_once, true>(data, count, read, to, h, s, stream);
  });
}

void require_codes(const Format& f, int bits) {
  if (!has_device_tally(f) || f.width() > bits) throw Error("gpu: codes of this format are decoded first");
}

}  // namespace

bool has_device_statistics(const FormatCast& to) {
  return to.cast.rounding != Rounding::stochastic && lane_plan(to.format, to.cast).way != LaneWay::general;
}

bool has_device_tally(const Format& codes) { return has_decode_lane(codes); }

void statistics_on_device(const float* data, std::size_t count, const FormatCast& to, DeviceStatistics* out,
                          GpuStream stream) {
  require_statistics(to);
  launch_tally<1, false>(data, count, ReadFloats{}, Targets<1>{{target(to)}}, nullptr, out, stream);
}

void histogram_on_device(const float* data, std::size_t count, DeviceHistogram* out, GpuStream stream) {
  launch_tally<0, true>(data, count, ReadFloats{}, Targets<0>{}, out, nullptr, stream);
}

void tally_on_device(const float* data, std::size_t count, std::span<const FormatCast> formats,
                     DeviceHistogram* histogram, DeviceStatistics* out, GpuStream stream) {
  launch_tally(data, count, ReadFloats{}, formats, histogram, out, stream);
}
void tally_on_device(const std::uint8_t* codes, const Format& f, std::size_t count, std::span<const FormatCast> formats,
                     DeviceHistogram* histogram, DeviceStatistics* out, GpuStream stream) {
  require_codes(f, 8);
  launch_tally(codes, count, ReadCodes{decode_lane(f)}, formats, histogram, out, stream);
}
void tally_on_device(const std::uint16_t* codes, const Format& f, std::size_t count,
                     std::span<const FormatCast> formats, DeviceHistogram* histogram, DeviceStatistics* out,
                     CodeCounts* counts, GpuStream stream) {
  require_codes(f, 16);
  if (counts != nullptr && tally_by_counts(codes, f, count, formats, histogram, out, *counts, stream)) return;
  launch_tally(codes, count, ReadCodes{decode_lane(f)}, formats, histogram, out, stream);
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
