#include "narrow/array/array.hpp"
#include "narrow/array/decode_array_simd.hpp"
#include "narrow/array/parts.hpp"
#include "narrow/base/parallel.hpp"

namespace narrow {

namespace {

using namespace detail;

template <class In, class T>
void decode_scalar(std::span<const In> in, const Format& f, std::span<T> out, int threads) {
  parallel_parts(in.size(), part_size, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) out[i] = in_carrier<T>(decode(in[i], f));
  });
}

template <DecodeWay W, class In>
void decode_lanes_of(std::span<const In> in, const Format& f, std::span<float> out, int threads, const DecodePlan& plan) {
  parallel_parts(in.size(), part_size, threads, [&](std::size_t begin, std::size_t end) {
    decode_part<W>(in.data(), out.data(), begin, end, f, plan);
  });
}

template <class In, class T>
void decode_any(std::span<const In> in, const Format& f, std::span<T> out, int threads) {
  check_spans(in.size(), out.size(), f);
  check_overlap(in, out);
  const DefaultFloats guard;
  if constexpr (std::is_same_v<T, float> && sizeof(In) <= 4) {
    const DecodePlan plan = decode_plan<In>(f);
    switch (plan.way) {
      case DecodeWay::finite: return decode_lanes_of<DecodeWay::finite>(in, f, out, threads, plan);
      case DecodeWay::nan_only: return decode_lanes_of<DecodeWay::nan_only>(in, f, out, threads, plan);
      case DecodeWay::inf_nan: return decode_lanes_of<DecodeWay::inf_nan>(in, f, out, threads, plan);
      case DecodeWay::fnuz: return decode_lanes_of<DecodeWay::fnuz>(in, f, out, threads, plan);
      case DecodeWay::word: return decode_lanes_of<DecodeWay::word>(in, f, out, threads, plan);
      case DecodeWay::power: return decode_lanes_of<DecodeWay::power>(in, f, out, threads, plan);
      case DecodeWay::integer: return decode_lanes_of<DecodeWay::integer>(in, f, out, threads, plan);
      case DecodeWay::byte_finite:
        if constexpr (sizeof(In) == 1) return decode_lanes_of<DecodeWay::byte_finite>(in, f, out, threads, plan);
        break;
      case DecodeWay::byte_top:
        if constexpr (sizeof(In) == 1) return decode_lanes_of<DecodeWay::byte_top>(in, f, out, threads, plan);
        break;
      case DecodeWay::byte_fnuz:
        if constexpr (sizeof(In) == 1) return decode_lanes_of<DecodeWay::byte_fnuz>(in, f, out, threads, plan);
        break;
      case DecodeWay::half:
        if constexpr (sizeof(In) <= 2) return decode_lanes_of<DecodeWay::half>(in, f, out, threads, plan);
        break;
      case DecodeWay::scalar: break;
    }
  }
  decode_scalar(in, f, out, threads);
}

}  // namespace

void decode_array(std::span<const std::uint8_t> in, const Format& f, std::span<float> out, int threads) { decode_any(in, f, out, threads); }
void decode_array(std::span<const std::uint16_t> in, const Format& f, std::span<float> out, int threads) { decode_any(in, f, out, threads); }
void decode_array(std::span<const std::uint32_t> in, const Format& f, std::span<float> out, int threads) { decode_any(in, f, out, threads); }
void decode_array(std::span<const std::uint64_t> in, const Format& f, std::span<float> out, int threads) { decode_any(in, f, out, threads); }
void decode_array(std::span<const std::uint8_t> in, const Format& f, std::span<double> out, int threads) { decode_any(in, f, out, threads); }
void decode_array(std::span<const std::uint16_t> in, const Format& f, std::span<double> out, int threads) { decode_any(in, f, out, threads); }
void decode_array(std::span<const std::uint32_t> in, const Format& f, std::span<double> out, int threads) { decode_any(in, f, out, threads); }
void decode_array(std::span<const std::uint64_t> in, const Format& f, std::span<double> out, int threads) { decode_any(in, f, out, threads); }

}  // namespace narrow
