// Codes to floats a few at a time. A code is moved to the top of a word, so that its sign is the float's, and its fields
// are moved down to where float has them; a multiplication by a power of two moves the bias and makes subnormals normal.
//   e4m3    seeeemmm 000...    >> 4    s0000eeee mmm00...    * 2^(127 - 7)
#pragma once

#include "narrow/array/lanes_simd.hpp"
#include "narrow/format/decode.hpp"

namespace narrow::detail {

enum class DecodeWay : std::uint8_t { scaled, half, power, integer, scalar };

struct DecodePlan {
  DecodeWay way = DecodeWay::scalar;
  int justify = 0;              // from the top of the code's own element to the top of its width
  int field_shift = 0;          // 8 - exponent_bits
  float scale = 1;              // 2^(127 - bias); for integers the quantum
  std::uint32_t finite_up_to = 0;  // justified magnitudes above are special
  std::uint32_t special_or = 0;    // what makes a special of a word: Inf, or NaN
  std::uint32_t nan_word = 0;      // the justified code that is NaN though its magnitude is 0 (fnuz), or ~0
  std::uint32_t scalar_above = 0;  // justified magnitudes above (signalling NaN) are left to the scalar function
};

template <class In>
DecodePlan decode_plan(const Format& f) noexcept {
  DecodePlan p;
  if (f.width() > static_cast<int>(8 * sizeof(In)) || f.width() > 32) return p;
  p.justify = static_cast<int>(8 * sizeof(In)) - f.width();
  p.finite_up_to = p.scalar_above = 0x7FFFFFFF;
  p.nan_word = ~0u;
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
  p.way = has_half_lanes && sizeof(In) == 2 && f == ieee(5, 10) ? DecodeWay::half : DecodeWay::scaled;
  p.field_shift = 8 - f.exponent_bits;
  p.scale = static_cast<float>(compose(false, 1, 127 - f.bias));
  const int lift = 32 - f.width();
  if (f.specials != Specials::none && f.specials != Specials::nan_is_negative_zero)
    p.finite_up_to = static_cast<std::uint32_t>(f.max_magnitude() << lift);
  if (f.specials == Specials::nan_is_negative_zero) p.nan_word = 0x80000000u;
  if (f.has_infinity()) p.scalar_above = static_cast<std::uint32_t>(f.infinity_code() << lift);
  p.special_or = 0x7F800000u | (f.has_infinity() ? 0u : 0x00400000u);
  return p;
}

// 16 codes (4 vectors) at the tops of words.
template <class In>
void load_justified(const In* in, WordLanes (&x)[4], int justify) noexcept {
#if defined(__ARM_NEON)
  if constexpr (sizeof(In) == 1) {
    const uint8x16_t codes = vld1q_u8(in);
    for (std::uint8_t k = 0; k < 4; ++k) {
      const std::uint8_t n = static_cast<std::uint8_t>(4 * k), z = 0xFF;  // an index out of range gives a zero byte
      const uint8x16_t to_top = {z, z, z, n, z, z, z, static_cast<std::uint8_t>(n + 1), z, z, z,
                                 static_cast<std::uint8_t>(n + 2), z, z, z, static_cast<std::uint8_t>(n + 3)};
      x[k] = std::bit_cast<WordLanes>(vqtbl1q_u8(codes, to_top));
    }
  } else if constexpr (sizeof(In) == 2) {
    for (int k = 0; k < 4; ++k) x[k] = std::bit_cast<WordLanes>(vshll_n_u16(vld1_u16(in + 4 * k), 16));
  } else {
    for (int k = 0; k < 4; ++k) std::memcpy(&x[k], in + k * lane_count, sizeof x[k]);
  }
#else
  typedef In InLanes __attribute__((vector_size(sizeof(In) * lane_count)));
  for (int k = 0; k < 4; ++k) {
    InLanes codes;
    std::memcpy(&codes, in + k * lane_count, sizeof codes);
    x[k] = __builtin_convertvector(codes, WordLanes) << static_cast<int>(32 - 8 * sizeof(In));
  }
#endif
  for (WordLanes& word : x) word <<= justify;
}

inline WordLanes decode_lanes(WordLanes x, const DecodePlan& p) noexcept {
  const WordLanes a = magnitude(x);
  const WordLanes word = a >> p.field_shift;
  const WordLanes value = as_words(as_float(word) * (FloatLanes{} + p.scale));
  const WordLanes result = select(above(a, splat(p.finite_up_to)), word | p.special_or, value);
  const WordLanes is_nan = std::bit_cast<WordLanes>(x == p.nan_word);
  return select(is_nan, splat(0x7FC00000), select(splat(0x80000000u), x, result));
}

inline WordLanes decode_power(WordLanes x) noexcept {
  const WordLanes word = x >> 1;
  const WordLanes finite = select(std::bit_cast<WordLanes>(x == 0), splat(0x00400000), word);
  return select(std::bit_cast<WordLanes>(word == 0x7F800000u), splat(0x7FC00000), finite);
}

inline WordLanes decode_integer(WordLanes x, const DecodePlan& p) noexcept {
  const IntLanes value = std::bit_cast<IntLanes>(x) >> p.field_shift;
  return as_words(__builtin_convertvector(value, FloatLanes) * (FloatLanes{} + p.scale));
}

template <DecodeWay W, class In>
void decode_part(const In* in, float* out, std::size_t begin, std::size_t end, const Format& f, const DecodePlan& plan) noexcept {
  const DecodePlan p = plan;
  constexpr std::size_t block = 4 * lane_count;
  std::size_t i = begin;
  for (; i + block <= end; i += block) {
    if constexpr (W == DecodeWay::half) {
      for (int k = 0; k < 4; ++k) {
        HalfLanes half;
        std::memcpy(&half, in + i + k * lane_count, sizeof half);
        store(out + i + k * lane_count, from_half(half));
      }
      continue;
    }
    WordLanes x[4];
    load_justified(in + i, x, p.justify);
    if constexpr (W == DecodeWay::scaled) {
      const WordLanes top = larger(larger(magnitude(x[0]), magnitude(x[1])), larger(magnitude(x[2]), magnitude(x[3])));
      if (any(above(top, splat(p.scalar_above)))) [[unlikely]] {
        for (std::size_t k = i; k < i + block; ++k) out[k] = static_cast<float>(decode(in[k], f));
        continue;
      }
    }
    for (WordLanes& word : x) {
      if constexpr (W == DecodeWay::scaled) word = decode_lanes(word, p);
      if constexpr (W == DecodeWay::power) word = decode_power(word);
      if constexpr (W == DecodeWay::integer) word = decode_integer(word, p);
    }
    for (int k = 0; k < 4; ++k) store(out + i + k * lane_count, x[k]);
  }
  for (; i < end; ++i) out[i] = static_cast<float>(decode(in[i], f));
}

}  // namespace narrow::detail
