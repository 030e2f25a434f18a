#include <type_traits>

#include "narrow/array/array.hpp"
#include "narrow/array/kernels.hpp"
#include "narrow/array/parts.hpp"
#include "narrow/base/parallel.hpp"

namespace narrow {

namespace {

using namespace detail;

CastKernel<float> kernel_for(const CastJob& job, float) { return array_kernels().cast_values(job); }
CastKernel<std::uint8_t> kernel_for(const CastJob& job, std::uint8_t) { return array_kernels().cast_codes8(job); }
CastKernel<std::uint16_t> kernel_for(const CastJob& job, std::uint16_t) { return array_kernels().cast_codes16(job); }
CastKernel<std::uint32_t> kernel_for(const CastJob& job, std::uint32_t) { return array_kernels().cast_codes32(job); }

template <class Out>
void cast_floats(std::span<const float> in, std::span<Out> out, const CastJob& job, int threads) {
  const CastKernel<Out> kernel = kernel_for(job, Out{});
  parallel_parts(in.size(), part_size, threads,
                 [&](std::size_t begin, std::size_t end) { kernel(in.data(), out.data(), begin, end, job); });
}

template <class T, class Out>
void encode_any(std::span<const T> in, const Format& f, const Cast& cast, std::span<Out> out, std::uint64_t seed,
                int threads) {
  check_spans(in.size(), out.size(), f);
  check_overlap(in, out);
  check_cast(cast);
  const DefaultFloats guard;
  check_code_type(f, sizeof(Out));
  if constexpr (std::is_same_v<T, float> && sizeof(Out) <= 4) {
    cast_floats<Out>(in, out, {f, cast, seed, code_plan(f, cast), 0}, threads);
  } else {
    const CastJob job{f, cast, seed, {}, 0};
    parallel_parts(in.size(), part_size, threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) out[i] = static_cast<Out>(encode(in[i], f, cast, element_random(job, i)));
    });
  }
}

}  // namespace

void round_array(std::span<const float> in, std::span<float> out, const Format& f, const Cast& cast, std::uint64_t seed,
                 int threads) {
  check_spans(in.size(), out.size(), f);
  check_overlap(in, out);
  check_cast(cast);
  const DefaultFloats guard;
  cast_floats<float>(in, out, {f, cast, seed, value_plan(f, cast), 0}, threads);
}
void round_array(std::span<const double> in, std::span<double> out, const Format& f, const Cast& cast,
                 std::uint64_t seed, int threads) {
  check_spans(in.size(), out.size(), f);
  check_overlap(in, out);
  check_cast(cast);
  const DefaultFloats guard;
  const CastJob job{f, cast, seed, {}, 0};
  parallel_parts(in.size(), part_size, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) out[i] = round_to(in[i], f, cast, element_random(job, i));
  });
}

void encode_array(std::span<const float> in, const Format& f, const Cast& cast, std::span<std::uint8_t> out, std::uint64_t seed,
                  int threads) {
  encode_any(in, f, cast, out, seed, threads);
}
void encode_array(std::span<const float> in, const Format& f, const Cast& cast, std::span<std::uint16_t> out, std::uint64_t seed,
                  int threads) {
  encode_any(in, f, cast, out, seed, threads);
}
void encode_array(std::span<const float> in, const Format& f, const Cast& cast, std::span<std::uint32_t> out, std::uint64_t seed,
                  int threads) {
  encode_any(in, f, cast, out, seed, threads);
}
void encode_array(std::span<const float> in, const Format& f, const Cast& cast, std::span<std::uint64_t> out, std::uint64_t seed,
                  int threads) {
  encode_any(in, f, cast, out, seed, threads);
}
void encode_array(std::span<const double> in, const Format& f, const Cast& cast, std::span<std::uint8_t> out, std::uint64_t seed,
                  int threads) {
  encode_any(in, f, cast, out, seed, threads);
}
void encode_array(std::span<const double> in, const Format& f, const Cast& cast, std::span<std::uint16_t> out, std::uint64_t seed,
                  int threads) {
  encode_any(in, f, cast, out, seed, threads);
}
void encode_array(std::span<const double> in, const Format& f, const Cast& cast, std::span<std::uint32_t> out, std::uint64_t seed,
                  int threads) {
  encode_any(in, f, cast, out, seed, threads);
}
void encode_array(std::span<const double> in, const Format& f, const Cast& cast, std::span<std::uint64_t> out, std::uint64_t seed,
                  int threads) {
  encode_any(in, f, cast, out, seed, threads);
}

}  // namespace narrow
