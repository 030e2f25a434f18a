#include "narrow/array/array.hpp"
#include "narrow/array/kernels.hpp"
#include "narrow/array/parts.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/format/decode.hpp"

namespace narrow {

namespace {

using namespace detail;

template <class In, class T>
void decode_scalar(std::span<const In> in, const Format& f, std::span<T> out, int threads) {
  parallel_parts(in.size(), part_size, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) out[i] = in_carrier<T>(decode(in[i], f));
  });
}

template <class In>
DecodePlan decode_plan(const Format& f, const ArrayKernels& kernels) noexcept {
  const bool has_half_lanes = kernels.has_half;
  DecodePlan p;
  p.format = f;
  if (f.width() > static_cast<int>(8 * sizeof(In)) || f.width() > 32) return p;
  p.justify = static_cast<int>(8 * sizeof(In)) - f.width();
  p.scalar_above = 0x7FFFFFFF;
  if (f.twos_complement) {
    p.way = f.width() <= 24 && f.min_quantum_exponent() >= -126 && f.min_quantum_exponent() <= 100 ? DecodeWay::integer : p.way;
    p.field_shift = 32 - f.width();
    p.scale = static_cast<float>(smallest_positive(f));
    return p;
  }
  if (!f.has_zero) {
    const bool is_e8m0 = f.exponent_bits == 8 && f.mantissa_bits == 0 && f.bias == 127 && !f.has_sign;
    if (is_e8m0) p.way = DecodeWay::power;
    return p;
  }
  const bool fits = f.has_sign && f.exponent_bits <= 8 && f.mantissa_bits <= 23 && f.max_exponent() <= 127 &&
                    f.min_quantum_exponent() >= -149 && f.bias >= 0 && f.bias <= 127;
  if (!fits) return p;
  p.field_shift = 8 - f.exponent_bits;
  p.scale = static_cast<float>(compose(false, 1, 127 - f.bias));
  const int lift = 32 - f.width();
  p.word_mask = 0x80000000u | 0x7FFFFFFFu >> p.field_shift;
  p.largest_word = std::bit_cast<std::uint32_t>(static_cast<float>(largest(f)));
  switch (f.specials) {
    case Specials::none: p.way = DecodeWay::finite; break;
    case Specials::nan_only: p.way = DecodeWay::nan_only; break;
    case Specials::nan_is_negative_zero: p.way = DecodeWay::fnuz; break;
    case Specials::extended: return p;
    case Specials::inf_and_nan:
      p.way = f.exponent_bits == 8 && f.bias == 127 ? DecodeWay::word : DecodeWay::inf_nan;
      p.scalar_above = static_cast<std::uint32_t>(f.infinity_code() << lift);
      if (has_half_lanes && sizeof(In) == 2 && f == ieee(5, 10)) p.way = DecodeWay::half;
      if (has_half_lanes && sizeof(In) == 1 && f == ieee(5, 2)) p.way = DecodeWay::half;  // the upper byte of fp16
  }
  if (has_half_lanes && sizeof(In) == 1 && f.exponent_bits <= 4) {
    p.way = f.specials == Specials::none                   ? DecodeWay::byte_finite
            : f.specials == Specials::nan_is_negative_zero ? DecodeWay::byte_fnuz
                                                           : DecodeWay::byte_top;
    p.field_shift = 5 - f.exponent_bits;
    p.word_mask = 0x8000u | 0x7FFFu >> p.field_shift;
    p.scale = static_cast<float>(compose(false, 1, 15 - f.bias));
    p.finite_up_to = static_cast<std::uint32_t>(f.max_magnitude() << (16 - f.width()));
  }
  return p;
}

DecodeKernel<std::uint8_t> kernel_for(const ArrayKernels& k, DecodeWay way, std::uint8_t) { return k.decode8(way); }
DecodeKernel<std::uint16_t> kernel_for(const ArrayKernels& k, DecodeWay way, std::uint16_t) { return k.decode16(way); }
DecodeKernel<std::uint32_t> kernel_for(const ArrayKernels& k, DecodeWay way, std::uint32_t) { return k.decode32(way); }

template <class In, class T>
void decode_any(std::span<const In> in, const Format& f, std::span<T> out, int threads) {
  check_spans(in.size(), out.size(), f);
  check_overlap(in, out);
  const DefaultFloats guard;
  if constexpr (std::is_same_v<T, float> && sizeof(In) <= 4) {
    const ArrayKernels& kernels = array_kernels();
    const DecodePlan plan = decode_plan<In>(f, kernels);
    const DecodeKernel<In> kernel = kernel_for(kernels, plan.way, In{});
    parallel_parts(in.size(), part_size, threads,
                   [&](std::size_t begin, std::size_t end) { kernel(in.data(), out.data(), begin, end, plan); });
  } else {
    decode_scalar(in, f, out, threads);
  }
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
