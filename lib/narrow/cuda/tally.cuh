// What a thread sees of numbers and of their rounding, and how threads, warps and blocks add it up.
#pragma once

#include <bit>

#include "narrow/array/thresholds.hpp"
#include "narrow/cuda/arrays.hpp"
#include "narrow/cuda/cast_lane.cuh"
#include "narrow/cuda/launch.cuh"

namespace narrow::detail {

// ---- reading: floats as they are, codes by their format

struct ReadFloats {
  __device__ float operator()(float x) const { return x; }
};
struct ReadCodes {
  DecodeLane lane;
  __device__ float operator()(unsigned code) const { return lane(code); }
};

// ---- statistics of some formats

struct Target {
  LanePlan plan;
  unsigned overflow_from = 0, smallest_normal = 0;  // magnitudes as float words
};

// Kept for the last few formats of a thread: finding where overflow begins takes as long as a kernel over a megabyte.
inline Target target(const FormatCast& to) {
  struct Known {
    FormatCast to;
    Target target;
    bool is_set;
  };
  constexpr int places = 8;
  thread_local Known known[places] = {};
  thread_local int next = 0;
  for (const Known& k : known)
    if (k.is_set && k.to.format == to.format && k.to.cast == to.cast) return k.target;
  known[next] = {to,
                 {lane_plan(to.format, to.cast), find_overflow(to, false, 0),
                  std::bit_cast<unsigned>(static_cast<float>(smallest_normal(to.format)))},
                 true};
  const Target& found = known[next].target;
  next = (next + 1) % places;
  return found;
}

template <int F>
struct Targets {
  Target of[F == 0 ? 1 : F];
  int count = F;
};

// What does not depend on a format. N: unsigned where a thread sees its elements one by one.
template <class N>
struct InputOf {
  N zeros = 0, nan = 0, inf = 0;
  unsigned amax = 0, min_less_one = ~0u;  // the smallest non-zero word, less one: a zero is then the largest of all
  double sum = 0;
};

template <class N>
struct RoundedOf {
  N zeros = 0, below_normal = 0, overflow = 0, saturated = 0, compared = 0;
  double squared_error = 0, signal = 0;
  float max_relative = 0;
};
using Input = InputOf<unsigned>;
using Rounded = RoundedOf<unsigned>;
using Count = unsigned long long;

__device__ inline unsigned magnitude(float x) { return __float_as_uint(x) & 0x7FFFFFFFu; }
__device__ inline bool is_finite(float x) { return magnitude(x) < 0x7F800000u; }

template <class N>
__device__ inline void see(InputOf<N>& t, float x, N times = 1) {
  const unsigned a = magnitude(x);
  t.nan += a > 0x7F800000u ? times : 0, t.inf += a == 0x7F800000u ? times : 0;
  if (a >= 0x7F800000u) return;
  t.amax = max(t.amax, a), t.min_less_one = min(t.min_less_one, a - 1);
  t.zeros += a == 0 ? times : 0, t.sum += static_cast<double>(x) * static_cast<double>(times);
}

__device__ inline float round_by(float x, const LanePlan& p) {
  const bool nearest = p.cast.rounding == Rounding::nearest_even;
  constexpr Rounding even = Rounding::nearest_even, cut = Rounding::toward_zero;
  if (p.way == LaneWay::field)
    return nearest ? round_lane<LaneWay::field, even>(x, p) : round_lane<LaneWay::field, cut>(x, p);
  return nearest ? round_lane<LaneWay::anchor, even>(x, p) : round_lane<LaneWay::anchor, cut>(x, p);
}

// Any finite element, slowly. The result is one of its own: an address taken of the running one would move that to
// memory.
inline __device__ __noinline__ Rounded look_closely(float x, const Target& to) {
  Rounded t;
  const float r = round_by(x, to.plan);
  const unsigned a = magnitude(x), b = magnitude(r);
  t.zeros = b == 0 ? 1 : 0, t.below_normal = b < to.smallest_normal ? 1 : 0;
  const bool over = a >= to.overflow_from;
  t.overflow = over ? 1 : 0, t.saturated = over && b < 0x7F800000u ? 1 : 0;
  if (b >= 0x7F800000u) return t;
  t.compared = 1;
  const double e = static_cast<double>(r) - static_cast<double>(x);
  t.squared_error = e * e, t.signal = static_cast<double>(x) * static_cast<double>(x);
  if (a != 0) t.max_relative = static_cast<float>(fabs(e) / fabs(static_cast<double>(x)));
  return t;
}

template <class N>
__device__ inline void merge(RoundedOf<N>& t, const Rounded& u, N times = 1) {
  t.zeros += times * u.zeros, t.below_normal += times * u.below_normal, t.overflow += times * u.overflow;
  t.saturated += times * u.saturated, t.compared += times * u.compared;
  t.squared_error += static_cast<double>(times) * u.squared_error, t.signal += static_cast<double>(times) * u.signal;
  t.max_relative = fmaxf(t.max_relative, u.max_relative);
}

inline void require_statistics(const FormatCast& to) {
  if (!has_device_statistics(to))
    throw Error(
        "gpu: statistics on the device take IEEE-like formats with nearest_even or toward_zero; others: statistics() "
        "on the host");
}

constexpr int at_once = 3;  // formats of one pass

// run(formats of a pass, the histogram in the first one, where their statistics go, whether it is the last).
template <class Run>
void in_groups(std::span<const FormatCast> formats, DeviceHistogram* histogram, DeviceStatistics* out, const Run& run) {
  for (const FormatCast& to : formats) require_statistics(to);
  do {
    Targets<at_once> to;
    to.count = static_cast<int>(std::min<std::size_t>(at_once, formats.size()));
    for (int f = 0; f < to.count; ++f) to.of[f] = target(formats[static_cast<std::size_t>(f)]);
    formats = formats.subspan(static_cast<std::size_t>(to.count));
    run(to, histogram, out, formats.empty());
    out += to.count, histogram = nullptr;
  } while (!formats.empty());
}

// ---- adding up

template <class T>
__device__ inline T warp_sum(T v) {
  for (int s = 16; s > 0; s /= 2) v += __shfl_down_sync(~0u, v, s);
  return v;
}

// Warps add to their block's record (in shared memory, cleared), and blocks to the one in memory, where all queue for
// the same addresses. Every thread of the block comes here.
template <class N>
__device__ inline void pass_on(const InputOf<N>& in, const RoundedOf<N>& t, DeviceStatistics& block,
                               DeviceStatistics* out) {
  const bool is_first = (threadIdx.x & 31) == 0;
  const auto add = [&](unsigned long long& to, N v) {
    const N total = warp_sum(v);
    if (is_first && total != 0) atomicAdd(&to, static_cast<Count>(total));
  };
  add(block.zeros, in.zeros), add(block.nan, in.nan), add(block.inf, in.inf);
  add(block.underflow, t.zeros - in.zeros), add(block.subnormal, t.below_normal - t.zeros);
  add(block.overflow, t.overflow), add(block.saturated, t.saturated), add(block.compared, t.compared);
  const auto add_double = [&](double& to, double v) {
    const double total = warp_sum(v);
    if (is_first) atomicAdd(&to, total);
  };
  add_double(block.sum, in.sum), add_double(block.squared_error, t.squared_error), add_double(block.signal, t.signal);
  const unsigned amax = __reduce_max_sync(~0u, in.amax), smallest = __reduce_min_sync(~0u, in.min_less_one);
  const unsigned relative = __reduce_max_sync(~0u, __float_as_uint(t.max_relative));
  if (is_first) {
    atomicMax(&block.amax, amax), atomicMax(&block.max_relative_error, relative);
    if (smallest < 0x7F800000u) atomicMax(&block.min_nonzero_inverted, ~(smallest + 1));
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  const auto move = [&](auto DeviceStatistics::*field) {
    if (block.*field != 0) atomicAdd(&(out->*field), block.*field);
  };
  move(&DeviceStatistics::count), move(&DeviceStatistics::zeros), move(&DeviceStatistics::nan);
  move(&DeviceStatistics::inf), move(&DeviceStatistics::underflow), move(&DeviceStatistics::subnormal);
  move(&DeviceStatistics::overflow), move(&DeviceStatistics::saturated), move(&DeviceStatistics::compared);
  move(&DeviceStatistics::sum), move(&DeviceStatistics::squared_error), move(&DeviceStatistics::signal);
  atomicMax(&out->amax, block.amax), atomicMax(&out->max_relative_error, block.max_relative_error);
  atomicMax(&out->min_nonzero_inverted, block.min_nonzero_inverted);
}

}  // namespace narrow::detail
