#include "narrow/array/kernels.hpp"
#include "narrow/simd/byte_lanes.hpp"
#include "narrow/simd/width_lanes.hpp"

namespace narrow::detail::inline NARROW_LANES {

namespace {

constexpr bool is_scaled(DecodeWay way) noexcept { return way <= DecodeWay::fnuz; }
constexpr bool is_byte(DecodeWay way) noexcept { return way >= DecodeWay::byte_finite && way <= DecodeWay::byte_fnuz; }

// The codes of four vectors at the tops of words.
template <class In>
void load_justified(const In* in, WordLanes (&x)[4], int justify) noexcept {
  if constexpr (sizeof(In) == 4) {
    for (int k = 0; k < 4; ++k) x[k] = load_as<WordLanes>(in + k * lane_count);
  } else {
    HalfRow rows[2];
    if constexpr (sizeof(In) == 1) bytes_at_top(in, rows);
    else rows[0] = load_as<HalfRow>(in), rows[1] = load_as<HalfRow>(in + 2 * lane_count);
    for (int k = 0; k < 2; ++k) {
      WordLanes words[2];
      halves_at_top(rows[k], words);
      x[2 * k] = words[0], x[2 * k + 1] = words[1];
    }
  }
  if (justify != 0)
    for (int k = 0; k < 4; ++k) x[k] <<= justify;
}

// Bytes at the tops of sixteen bits, as fp16 words of the same fields. A magnitude beyond the finite ones gets the
// exponent of Inf and NaN; the mantissa stays.
template <DecodeWay W>
HalfRow to_half_words(HalfRow x, const DecodePlan& p) noexcept {
  const auto shifted = as<HalfRow>(as<SignedRow>(x) >> p.field_shift);
  const HalfRow word = shifted & static_cast<std::uint16_t>(p.word_mask);
  if constexpr (W == DecodeWay::byte_top)
    return word | (as<HalfRow>((x & 0x7FFF) > static_cast<std::uint16_t>(p.finite_up_to)) & 0x7C00);
  if constexpr (W == DecodeWay::byte_fnuz) {
    const HalfRow is_nan = as<HalfRow>(x == 0x8000);
    return (word & ~is_nan) | (is_nan & 0x7E00);
  }
  return word;
}

template <DecodeWay W>
void decode_by_half(const std::uint8_t* in, float* out, const DecodePlan& p) noexcept {
  HalfRow rows[2];
  bytes_at_top(in, rows);
  for (int k = 0; k < 2; ++k) {
    WordLanes words[2];
    if (p.justify != 0) rows[k] <<= p.justify;
    from_half_row(to_half_words<W>(rows[k], p), words);
    for (int v = 0; v < 2; ++v) store(out + (2 * k + v) * lane_count, as_words(as_float(words[v]) * p.scale));
  }
}

// The sign travels with the word: shifted down arithmetically, its copies are cut out of the exponent.
template <DecodeWay W>
WordLanes decode_scaled(WordLanes x, const DecodePlan& p) noexcept {
  const WordLanes word = as<WordLanes>(as<IntLanes>(x) >> p.field_shift) & p.word_mask;
  WordLanes result = as_words(as_float(word) * p.scale);
  // NaN keeps its payload, which is all ones where there is one NaN; Inf has none.
  if constexpr (W == DecodeWay::nan_only || W == DecodeWay::inf_nan) {
    const WordLanes special = above(as_float(magnitude(result)), as_float(splat(p.largest_word)));
    result = select(special, word | (W == DecodeWay::inf_nan ? 0x7F800000u : 0x7FC00000u), result);
  }
  if constexpr (W == DecodeWay::fnuz)
    result = select(as<WordLanes>(x == 0x80000000u), splat(0x7FC00000), result);
  return result;
}

inline WordLanes decode_power(WordLanes x) noexcept {
  const WordLanes word = x >> 1;
  const WordLanes finite = select(as<WordLanes>(x == 0), splat(0x00400000), word);
  return select(as<WordLanes>(word == 0x7F800000u), splat(0x7FC00000), finite);
}

inline WordLanes decode_integer(WordLanes x, const DecodePlan& p) noexcept {
  const IntLanes value = as<IntLanes>(x) >> p.field_shift;
  return as_words(__builtin_convertvector(value, FloatLanes) * (FloatLanes{} + p.scale));
}

// Blocks from `begin` on up to one for the scalar function or to the last whole one; returns where it ends.
template <DecodeWay W, class In>
[[gnu::noinline]] size_t decode_blocks(const In* in, float* out, size_t begin, size_t end, const DecodePlan& plan) noexcept {
  const DecodePlan p = plan;
  constexpr size_t block = 4 * lane_count;
  size_t i = begin;
  for (; i + block <= end; i += block) {
    ask_ahead(in + i, block * sizeof(In)), ask_ahead(out + i, block * sizeof(float));
    if constexpr (is_byte(W) && sizeof(In) == 1) {
      decode_by_half<W>(in + i, out + i, p);
      continue;
    }
    if constexpr (W == DecodeWay::half) {  // fp16 codes, or bytes that are the upper half of one (e5m2)
      HalfRow rows[2];
      if constexpr (sizeof(In) == 1) bytes_at_top(in + i, rows);
      else rows[0] = load_as<HalfRow>(in + i), rows[1] = load_as<HalfRow>(in + i + 2 * lane_count);
      for (int k = 0; k < 2; ++k) {
        WordLanes words[2];
        from_half_row(rows[k], words);
        store(out + i + 2 * k * lane_count, words[0]), store(out + i + (2 * k + 1) * lane_count, words[1]);
      }
      continue;
    }
    WordLanes x[4];
    load_justified(in + i, x, p.justify);
    if constexpr (W == DecodeWay::inf_nan || W == DecodeWay::word) {
      const WordLanes top = larger(larger(magnitude(x[0]), magnitude(x[1])), larger(magnitude(x[2]), magnitude(x[3])));
      if (any_above(top, p.scalar_above)) [[unlikely]] break;
    }
    for (WordLanes& word : x) {
      if constexpr (is_scaled(W)) word = decode_scaled<W>(word, p);
      if constexpr (W == DecodeWay::power) word = decode_power(word);
      if constexpr (W == DecodeWay::integer) word = decode_integer(word, p);
    }
    for (int k = 0; k < 4; ++k) store(out + i + k * lane_count, x[k]);
  }
  return i;
}

template <DecodeWay W, class In>
void decode_part(const In* in, float* out, size_t begin, size_t end, const DecodePlan& p) noexcept {
  in_blocks(
      begin, ahead_of_lines(out + begin, end - begin), end, 4 * lane_count,
      [&](size_t i) { return decode_blocks<W>(in, out, i, end, p); },
      [&](size_t i, size_t stop) { decode_one_by_one(in, out, i, stop, p); });
}

// The same by byte operations, where the machine is good at them.
template <DecodeWay W>
void decode_byte_part(const uint8_t* in, float* out, size_t begin, size_t end, const DecodePlan& p) noexcept {
  const Format& f = p.format;
  const int width = 1 + f.exponent_bits + f.mantissa_bits;
  const ByteDecoding bytes{static_cast<uint8_t>((1u << (width - 1)) - 1),
                           static_cast<uint8_t>(p.finite_up_to >> (16 - width)),
                           static_cast<int8_t>(-(f.mantissa_bits + 1)),
                           static_cast<int8_t>(7 - f.mantissa_bits),
                           static_cast<int8_t>(p.justify),
                           as<float>(static_cast<uint32_t>(254 - f.bias) << 23)};
  size_t i = begin;
  for (; i + 16 <= end; i += 16) decode_bytes<W == DecodeWay::byte_finite>(in + i, out + i, bytes);
  decode_one_by_one(in, out, i, end, p);
}

template <class In>
DecodeKernel<In> choose(DecodeWay way) {
  switch (way) {
    case DecodeWay::finite: return decode_part<DecodeWay::finite, In>;
    case DecodeWay::nan_only: return decode_part<DecodeWay::nan_only, In>;
    case DecodeWay::inf_nan: return decode_part<DecodeWay::inf_nan, In>;
    case DecodeWay::fnuz: return decode_part<DecodeWay::fnuz, In>;
    case DecodeWay::word: return decode_part<DecodeWay::word, In>;
    case DecodeWay::power: return decode_part<DecodeWay::power, In>;
    case DecodeWay::integer: return decode_part<DecodeWay::integer, In>;
    case DecodeWay::byte_finite:
      if constexpr (sizeof(In) == 1 && has_byte_lanes) return decode_byte_part<DecodeWay::byte_finite>;
      if constexpr (sizeof(In) == 1) return decode_part<DecodeWay::byte_finite, In>;
      break;
    case DecodeWay::byte_top:
      if constexpr (sizeof(In) == 1 && has_byte_lanes) return decode_byte_part<DecodeWay::byte_top>;
      if constexpr (sizeof(In) == 1) return decode_part<DecodeWay::byte_top, In>;
      break;
    case DecodeWay::byte_fnuz:
      if constexpr (sizeof(In) == 1) return decode_part<DecodeWay::byte_fnuz, In>;
      break;
    case DecodeWay::half:
      if constexpr (sizeof(In) <= 2) return decode_part<DecodeWay::half, In>;
      break;
    case DecodeWay::scalar: break;
  }
  return decode_one_by_one<In>;
}

}  // namespace

DecodeKernel<std::uint8_t> decode8_kernel(DecodeWay way) { return choose<std::uint8_t>(way); }
DecodeKernel<std::uint16_t> decode16_kernel(DecodeWay way) { return choose<std::uint16_t>(way); }
DecodeKernel<std::uint32_t> decode32_kernel(DecodeWay way) { return choose<std::uint32_t>(way); }

}  // namespace narrow::detail::inline NARROW_LANES
