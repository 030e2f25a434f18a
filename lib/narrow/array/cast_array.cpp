#include <type_traits>

#include "narrow/array/array.hpp"
#include "narrow/array/cast_kernels.hpp"
#include "narrow/base/error.hpp"
#include "narrow/base/parallel.hpp"

namespace narrow {

namespace {

using namespace detail;

// Parts of 2^16 elements: large enough to hide a thread's start, small enough to balance two of them.
constexpr std::size_t part_size = std::size_t{1} << 16;

CastKernel<float> kernel_for(const CastJob& job, float) { return value_kernel(job); }
CastKernel<std::uint8_t> kernel_for(const CastJob& job, std::uint8_t) { return code8_kernel(job); }
CastKernel<std::uint16_t> kernel_for(const CastJob& job, std::uint16_t) { return code16_kernel(job); }
CastKernel<std::uint32_t> kernel_for(const CastJob& job, std::uint32_t) { return code32_kernel(job); }

void check(std::size_t in, std::size_t out, const Format& f, const Cast& cast) {
  if (in != out)
    throw Error("array of " + std::to_string(in) + " elements into one of " + std::to_string(out) + "; sizes must be equal");
  if (!f.is_valid()) throw Error("array: not a valid format (double must hold every value)");
  if (cast.random_bits < 1 || cast.random_bits > 64)
    throw Error("array: random_bits is " + std::to_string(cast.random_bits) + "; 1 to 64 are possible");
}

template <class Out>
void cast_floats(std::span<const float> in, std::span<Out> out, const CastJob& job, int threads) {
  const CastKernel<Out> kernel = kernel_for(job, Out{});
  parallel_parts(in.size(), part_size, threads,
                 [&](std::size_t begin, std::size_t end) { kernel(in.data(), out.data(), begin, end, job); });
}

template <class T, class Out>
void encode_any(std::span<const T> in, const Format& f, const Cast& cast, std::span<Out> out, std::uint64_t seed,
                int threads) {
  check(in.size(), out.size(), f, cast);
  if (f.width() > static_cast<int>(8 * sizeof(Out)))
    throw Error("codes of " + std::to_string(f.width()) + " bits do not fit elements of " + std::to_string(8 * sizeof(Out)));
  if constexpr (std::is_same_v<T, float> && sizeof(Out) <= 4) {
    cast_floats<Out>(in, out, {f, cast, seed, code_plan(f, cast)}, threads);
  } else {
    const CastJob job{f, cast, seed, {}};
    parallel_parts(in.size(), part_size, threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) out[i] = static_cast<Out>(encode(in[i], f, cast, element_random(job, i)));
    });
  }
}

}  // namespace

void round_array(std::span<const float> in, std::span<float> out, const Format& f, const Cast& cast, std::uint64_t seed,
                 int threads) {
  check(in.size(), out.size(), f, cast);
  cast_floats<float>(in, out, {f, cast, seed, value_plan(f, cast)}, threads);
}
void round_array(std::span<const double> in, std::span<double> out, const Format& f, const Cast& cast,
                 std::uint64_t seed, int threads) {
  check(in.size(), out.size(), f, cast);
  const CastJob job{f, cast, seed, {}};
  parallel_parts(in.size(), part_size, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) out[i] = round_to(in[i], f, cast, element_random(job, i));
  });
}

#define X(T, Out) void encode_array(std::span<const T> in, const Format& f, const Cast& cast, std::span<Out> out, std::uint64_t seed, int threads) { encode_any(in, f, cast, out, seed, threads); }
X(float, std::uint8_t)
X(float, std::uint16_t)
X(float, std::uint32_t)
X(float, std::uint64_t)
X(double, std::uint8_t)
X(double, std::uint16_t)
X(double, std::uint32_t)
X(double, std::uint64_t)
#undef X

}  // namespace narrow
