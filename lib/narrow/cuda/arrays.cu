// Casts at the speed of memory.
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

template <LaneWay W, Rounding R, class Out>
struct EncodeOp {
  LanePlan plan;
  std::uint64_t seed;
  __device__ Out operator()(float x, std::size_t i) const {
    if constexpr (W == LaneWay::general) return static_cast<Out>(encode_general(x, plan, random_bits(seed, i)));
    else return static_cast<Out>(encode_lane<W, R>(x, plan, random_word<R>(plan, seed, i)));
  }
};
template <LaneWay W, Rounding R>
struct RoundOp {
  LanePlan plan;
  std::uint64_t seed;
  __device__ float operator()(float x, std::size_t i) const {
    if constexpr (W == LaneWay::general)
      return decode_general(encode_general(x, plan, random_bits(seed, i)), plan.format);
    else return round_lane<W, R>(x, plan, random_word<R>(plan, seed, i));
  }
};

template <class In>
struct DecodeGeneralOp {
  Format format;
  __device__ float operator()(In code, std::size_t) const { return decode_general(code, format); }
};

template <class In>
struct DecodeOp {
  DecodeLane lane;
  __device__ float operator()(In code, std::size_t) const { return lane(code); }
};

template <class In>
void launch_decode(const In* in, float* out, std::size_t count, const Format& f, GpuStream stream) {
  if (has_decode_lane(f) && f.width() <= static_cast<int>(8 * sizeof(In)))
    launch_transform(in, out, count, DecodeOp<In>{decode_lane(f)}, stream);
  else launch_transform(in, out, count, DecodeGeneralOp<In>{f}, stream);
}

template <template <LaneWay, Rounding, class...> class Op, class In, class Out, class... Rest>
void choose(const In* in, Out* out, std::size_t count, const Format& f, const Cast& cast, std::uint64_t seed,
            GpuStream stream) {
  const LanePlan plan = lane_plan(f, cast);
  const auto run = [&](const auto& op) { launch_transform(in, out, count, op, stream); };
  const auto by_way = [&]<Rounding R>() {
    if (plan.way == LaneWay::field) run(Op<LaneWay::field, R, Rest...>{plan, seed});
    else run(Op<LaneWay::anchor, R, Rest...>{plan, seed});
  };
  if (plan.way == LaneWay::general) run(Op<LaneWay::general, Rounding::nearest_even, Rest...>{plan, seed});
  else if (cast.rounding == Rounding::nearest_even) by_way.template operator()<Rounding::nearest_even>();
  else if (cast.rounding == Rounding::toward_zero) by_way.template operator()<Rounding::toward_zero>();
  else by_way.template operator()<Rounding::stochastic>();
}

template <LaneWay W, Rounding R, class... Out>
using EncodeAs = EncodeOp<W, R, Out...>;
template <LaneWay W, Rounding R, class...>
using RoundAs = RoundOp<W, R>;

void require_width(const Format& f, int bits) {
  if (f.width() > bits)
    throw Error("gpu: a format of " + std::to_string(f.width()) + " bits does not fit codes of " +
                std::to_string(bits) + " bits");
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

void take_from_device(void* records, void* pages, std::size_t bytes, GpuStream stream) {
  using Word = unsigned long long;
  take_kernel<<<1, threads, 0, stream>>>(static_cast<Word*>(records), static_cast<Word*>(pages), bytes / sizeof(Word));
  require_launch("taking records");
}

}  // namespace narrow
