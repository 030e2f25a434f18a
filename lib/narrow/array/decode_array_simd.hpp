// Codes to floats a few at a time. A code is moved to the top of a word, so that its sign is the float's, and its fields
// are moved down to where float has them; a multiplication by a power of two moves the bias and makes subnormals normal.
//   e4m3    seeeemmm 000...    >> 4    s0000eeee mmm00...    * 2^(127 - 7)
#pragma once

#include "narrow/array/lanes_simd.hpp"
#include "narrow/format/decode.hpp"

namespace narrow::detail {

enum class DecodeWay : std::uint8_t {
  finite,     // scaled, every code is a number
  nan_only,   // scaled, the magnitudes above the largest are NaN
  inf_nan,    // scaled, the magnitude above the largest is Inf, and then come NaN
  fnuz,       // scaled, the code of -0 is NaN
  word,       // the code is the upper part of the float's word
  half,       // fp16 as the CPU converts it
  // A byte with at most four exponent bits, moved into an fp16 word, converted, and the bias corrected:
  byte_finite,  // every code is a number
  byte_top,     // the magnitudes above the largest are Inf and NaN
  byte_fnuz,    // the code of -0 is NaN
  power,      // e8m0
  integer,    // two's complement
  scalar
};

constexpr bool is_scaled(DecodeWay way) noexcept { return way <= DecodeWay::fnuz; }
constexpr bool is_byte(DecodeWay way) noexcept { return way >= DecodeWay::byte_finite && way <= DecodeWay::byte_fnuz; }

struct DecodePlan {
  DecodeWay way = DecodeWay::scalar;
  int justify = 0;              // from the top of the code's own element to the top of its width
  int field_shift = 0;          // 8 - exponent_bits
  float scale = 1;              // 2^(127 - bias); for integers the quantum
  std::uint32_t word_mask = ~0u;   // what stays of a word after the shift
  std::uint32_t largest_word = 0;  // float bits of the largest finite value
  std::uint32_t finite_up_to = 0;  // byte_top: the largest finite magnitude at the top of 16 bits
  std::uint32_t scalar_above = 0;  // justified magnitudes above (NaN beside Inf) are left to the scalar function
};

template <class In>
DecodePlan decode_plan(const Format& f) noexcept {
  DecodePlan p;
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
  if (justify != 0)
    for (int k = 0; k < 4; ++k) x[k] <<= justify;
}

// fp16 codes, or bytes that are the upper half of one (e5m2).
template <class In>
void load_halves(const In* in, HalfLanes (&half)[4]) noexcept {
  if constexpr (sizeof(In) == 1) {
#if defined(__ARM_NEON)
    const uint8x16_t codes = vld1q_u8(in), zero = vdupq_n_u8(0);
    const uint16x8_t low = vreinterpretq_u16_u8(vzip1q_u8(zero, codes)), high = vreinterpretq_u16_u8(vzip2q_u8(zero, codes));
    half[0] = std::bit_cast<HalfLanes>(vget_low_u16(low)), half[1] = std::bit_cast<HalfLanes>(vget_high_u16(low));
    half[2] = std::bit_cast<HalfLanes>(vget_low_u16(high)), half[3] = std::bit_cast<HalfLanes>(vget_high_u16(high));
#else
    typedef In InLanes __attribute__((vector_size(lane_count)));
    for (int k = 0; k < 4; ++k) {
      InLanes codes;
      std::memcpy(&codes, in + k * lane_count, sizeof codes);
      half[k] = __builtin_convertvector(codes, HalfLanes) << 8;
    }
#endif
  } else {
    for (int k = 0; k < 4; ++k) std::memcpy(&half[k], in + k * lane_count, sizeof half[k]);
  }
}

// Eight bytes at the tops of sixteen bits, as fp16 words of the same fields. A magnitude beyond the finite ones gets the
// exponent of Inf and NaN; the mantissa stays.
template <DecodeWay W>
HalfRow to_half_words(HalfRow x, const DecodePlan& p) noexcept {
  const auto shifted = std::bit_cast<HalfRow>(std::bit_cast<SignedRow>(x) >> p.field_shift);
  const HalfRow word = shifted & static_cast<std::uint16_t>(p.word_mask);
  if constexpr (W == DecodeWay::byte_top)
    return word | (std::bit_cast<HalfRow>((x & 0x7FFF) > static_cast<std::uint16_t>(p.finite_up_to)) & 0x7C00);
  if constexpr (W == DecodeWay::byte_fnuz) {
    const HalfRow is_nan = std::bit_cast<HalfRow>(x == 0x8000);
    return (word & ~is_nan) | (is_nan & 0x7E00);
  }
  return word;
}

template <DecodeWay W>
void decode_bytes(const std::uint8_t* in, float* out, const DecodePlan& p) noexcept {
  HalfRow rows[2];
#if defined(__ARM_NEON)
  const uint8x16_t codes = vld1q_u8(in), zero = vdupq_n_u8(0);
  rows[0] = std::bit_cast<HalfRow>(vzip1q_u8(zero, codes)), rows[1] = std::bit_cast<HalfRow>(vzip2q_u8(zero, codes));
#else
  typedef std::uint8_t ByteRow __attribute__((vector_size(8)));
  for (int k = 0; k < 2; ++k) {
    ByteRow codes;
    std::memcpy(&codes, in + 8 * k, sizeof codes);
    rows[k] = __builtin_convertvector(codes, HalfRow) << 8;
  }
#endif
  for (int k = 0; k < 2; ++k) {
    WordLanes words[8 / lane_count];
    if (p.justify != 0) rows[k] <<= p.justify;
    from_half_row(to_half_words<W>(rows[k], p), words);
    for (int v = 0; v < 8 / lane_count; ++v)
      store(out + 8 * k + v * lane_count, as_words(as_float(words[v]) * p.scale));
  }
}

// The sign travels with the word: shifted down arithmetically, its copies are cut out of the exponent.
template <DecodeWay W>
WordLanes decode_scaled(WordLanes x, const DecodePlan& p) noexcept {
  const WordLanes word = std::bit_cast<WordLanes>(std::bit_cast<IntLanes>(x) >> p.field_shift) & p.word_mask;
  WordLanes result = as_words(as_float(word) * p.scale);
  // NaN keeps its payload, which is all ones where there is one NaN; Inf has none.
  if constexpr (W == DecodeWay::nan_only || W == DecodeWay::inf_nan) {
    const WordLanes special = above(as_float(magnitude(result)), as_float(splat(p.largest_word)));
    result = select(special, word | (W == DecodeWay::inf_nan ? 0x7F800000u : 0x7FC00000u), result);
  }
  if constexpr (W == DecodeWay::fnuz)
    result = select(std::bit_cast<WordLanes>(x == 0x80000000u), splat(0x7FC00000), result);
  return result;
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
    if constexpr (is_byte(W) && sizeof(In) == 1) {
      for (std::size_t k = 0; k < block; k += 16) decode_bytes<W>(in + i + k, out + i + k, p);
      continue;
    }
    if constexpr (W == DecodeWay::half) {
      HalfLanes half[4];
      load_halves(in + i, half);
      for (int k = 0; k < 4; ++k) store(out + i + k * lane_count, from_half(half[k]));
      continue;
    }
    WordLanes x[4];
    load_justified(in + i, x, p.justify);
    if constexpr (W == DecodeWay::inf_nan || W == DecodeWay::word) {
      const WordLanes top = larger(larger(magnitude(x[0]), magnitude(x[1])), larger(magnitude(x[2]), magnitude(x[3])));
      if (any_above(top, p.scalar_above)) [[unlikely]] {
        for (std::size_t k = i; k < i + block; ++k) out[k] = static_cast<float>(decode(in[k], f));
        continue;
      }
    }
    for (WordLanes& word : x) {
      if constexpr (is_scaled(W)) word = decode_scaled<W>(word, p);
      if constexpr (W == DecodeWay::power) word = decode_power(word);
      if constexpr (W == DecodeWay::integer) word = decode_integer(word, p);
    }
    for (int k = 0; k < 4; ++k) store(out + i + k * lane_count, x[k]);
  }
  for (; i < end; ++i) out[i] = static_cast<float>(decode(in[i], f));
}

}  // namespace narrow::detail
