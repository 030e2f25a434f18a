// The cast of a few floats at once: from magnitudes to rounded values (Value) or codes (not Value), in every mode, and the
// loop over a part of an array: full blocks in lanes, blocks with Inf or NaN and the tail one by one.
#pragma once

#include <type_traits>

#include "narrow/array/kernels.hpp"
#include "narrow/simd/byte_lanes.hpp"
#include "narrow/simd/width_lanes.hpp"

namespace narrow::detail::inline NARROW_LANES {

// Random words of stochastic lanes: the bits that count, at the top, and zeros. So bits of the fraction below those that
// count meet zeros and cause no carry.
struct RandomLanes {
  WordLanes top;
};

inline WordLanes convert_to_words(FloatLanes x) noexcept { return __builtin_convertvector(x, WordLanes); }

// The anchor c = 2^(E + cut) has the quantum as its last bit, so the FPU rounds a + c to nearest even at that bit:
//   word(a + c) = word(c) + kept        kept quanta, 0 <= kept <= 2^(m+1)
// The other modes move this word by one where a comparison with a says so. Exact: r = (a + c) - c is a multiple of the
// quantum near a, and r - a has the bits of a below the quantum.
template <Rounding R>
WordLanes anchored(FloatLanes a, FloatLanes c, WordLanes negative, const RandomLanes& random) noexcept {
  const FloatLanes sum = a + c;
  const WordLanes word = as_words(sum);
  if constexpr (R == Rounding::nearest_even) return word;
  const FloatLanes r = sum - c;
  const WordLanes cut_word = word + above(r, a);  // a mask is -1: toward zero
  if constexpr (R == Rounding::toward_zero) return cut_word;
  if constexpr (R == Rounding::up) return cut_word - ~(equal(r, a) | negative);
  if constexpr (R == Rounding::down) return cut_word - (negative & ~equal(r, a));
  if constexpr (R == Rounding::to_odd) return cut_word | (splat(1) & ~equal(r, a));
  const FloatLanes half = c * 0x1p-24f;
  if constexpr (R == Rounding::nearest_away) return word - as<WordLanes>(a - r == half);
  if constexpr (R == Rounding::nearest_to_zero) return word + as<WordLanes>(r - a == half);
  if constexpr (R == Rounding::stochastic) {
    // rest / quantum * 2^32, exact: 2^55 / c is 2^32 / quantum. Adding the random word carries out with that probability.
    const FloatLanes rest = a - (as_float(cut_word) - c);
    const FloatLanes per_quantum = as_float(splat((55u + 254) << 23) - as_words(c));
    const WordLanes fraction = convert_to_words(rest * per_quantum);
    return cut_word - as<WordLanes>(fraction + random.top < fraction);
  }
  return word;
}

// What is added to a word before its low `cut` bits are cleared, so that the carry is the decision.
template <Rounding R>
WordLanes field_addend(WordLanes word, int cut, WordLanes negative, const RandomLanes& random) noexcept {
  const uint32_t all = (1u << cut) - 1, half = cut > 0 ? 1u << (cut - 1) : 0;
  switch (R) {
    case Rounding::nearest_even:  // half - 1, and 1 more when the last bit kept is odd (a mask is -1)
      return cut > 0 ? (half - 1) - as<WordLanes>((word & (1u << cut)) != 0) : WordLanes{};
    case Rounding::nearest_away: return splat(half);
    case Rounding::nearest_to_zero: return splat(cut > 0 ? half - 1 : 0);
    case Rounding::up: return ~negative & all;
    case Rounding::down: return negative & all;
    case Rounding::stochastic: return cut > 0 ? random.top >> (32 - cut) : WordLanes{};
    case Rounding::toward_zero:
    case Rounding::to_odd: break;
  }
  return WordLanes{};
}

// Magnitudes a (below Inf) to results without sign; at a fixed bit also words with their sign.
template <bool Value, Way W, Rounding R>
WordLanes round_magnitude(WordLanes a, WordLanes negative, const RoundPlan& p, const RandomLanes& random) noexcept {
  if constexpr (W == Way::anchor) {
    const WordLanes e = larger(a & 0x7F800000u, splat(p.min_exponent_bits));
    const FloatLanes c = as_float(e + p.anchor_shift);
    const WordLanes word = anchored<R>(as_float(a), c, negative, random);
    if constexpr (Value) return as_words(as_float(word) - c);
    else return word - e + (e >> p.cut) - p.code_offset;
  }
  const uint32_t low = (1u << p.cut) - 1;
  WordLanes word = a + field_addend<R>(a, p.cut, negative, random);
  if constexpr (R == Rounding::to_odd)
    word |= as<WordLanes>(as<IntLanes>(a & low) > 0) & (1u << p.cut);
  return Value ? word & ~low : word >> p.cut;
}

// e8m0: the exponent field, one more when the fraction says so. Stochastic: lanes with 0 < a < 2^-126 are not for this.
template <bool Value, Rounding R, Finish F>
WordLanes power_of_two(WordLanes x, const RoundPlan& p, const RandomLanes& random) noexcept {
  const WordLanes a = magnitude(x), fraction = a & 0x7FFFFFu;
  WordLanes grows;
  if constexpr (R == Rounding::stochastic) grows = above(fraction + (random.top >> 9), splat(0x7FFFFF));
  else grows = above(fraction, select(above(splat(0x00800000), a), splat(p.low_grow_from - 1), splat(p.grow_from - 1)));
  WordLanes result = (a >> 23) - grows;
  const WordLanes is_negative = as<WordLanes>(x > 0x80000000u);  // and not -0
  if constexpr (Value) {
    const WordLanes value = select(as<WordLanes>(result == 0), splat(0x00400000), result << 23);  // code 0: 2^-127
    result = select(above(result, splat(254)), splat(p.overflow_word[0]), value);
    if (p.negative_word >= 0) result = select(is_negative, splat(static_cast<uint32_t>(p.negative_word)), result);
    return select(as<WordLanes>(a == 0), splat(p.zero_word[0]), result);
  } else {
    // One beyond the largest code, 255, is NaN already; a cast that saturates has 254 as its overflow. Negatives and zero
    // become 255 or stay as they are.
    result = smaller(result, splat(p.overflow_word[0]));
    if constexpr (F == Finish::natural) return result;
    if constexpr (F == Finish::selected) return (result | is_negative) & 0xFF;
    result |= p.negative_word >= 0 ? is_negative & 0xFF : WordLanes{};
    return result | (as<WordLanes>(a == 0) & p.zero_word[0]);
  }
}

// A quantum of 1 and an instruction that rounds to integers: values only, signs and zeros come out right by themselves.
template <Rounding R>
inline constexpr bool rounds_integrally =
    has_integral_lanes && (R == Rounding::up || R == Rounding::down || R == Rounding::nearest_away);

template <Rounding R, Finish F>
WordLanes round_integrally(WordLanes x, const RoundPlan& p) noexcept {
  WordLanes v = x;
  if constexpr (F == Finish::clamped) v = clamp(x, p.clamp_word, p.clamp_word);
  if constexpr (F == Finish::by_sign) v = clamp(x, R == Rounding::up ? p.clamp_word : 0x7F7FFFFF, R == Rounding::up ? 0x7F7FFFFF : p.clamp_word);
  // x / quantum has its integer part in the mantissa: 2^m <= |x| / quantum < 2^(m+1), or less below the normals.
  const WordLanes e = larger(v & 0x7F800000u, splat(p.min_exponent_bits));
  const uint32_t mantissa_bits = static_cast<uint32_t>(23 - p.cut);
  const FloatLanes per_quantum = as_float(splat((mantissa_bits + 254) << 23) - e);
  const FloatLanes quantum = as_float(e - (mantissa_bits << 23));
  FloatLanes r = as_float(v) * per_quantum;
  if constexpr (R == Rounding::up) r = integral_up(r);
  if constexpr (R == Rounding::down) r = integral_down(r);
  if constexpr (R == Rounding::nearest_away) r = integral_away(r);
  const WordLanes result = as_words(r * quantum);
  if constexpr (F == Finish::by_sign) {
    const FloatLanes limit = as_float(splat(p.clamp_word | (R == Rounding::up ? 0 : 0x80000000u)));
    const WordLanes beyond = R == Rounding::up ? above(as_float(x), limit) : above(limit, as_float(x));
    return select(beyond, splat(p.overflow_word[R == Rounding::up ? 0 : 1]), result);
  }
  if constexpr (F == Finish::selected) {
    const WordLanes overflow = select(splat(0x80000000u), x, splat(p.overflow_word[0]));
    return select(above(magnitude(x), splat(p.overflow_above[0])), overflow, result);
  }
  return result;
}

// Whether a kernel leaves the sign of codes to store_signed.
constexpr bool sign_is_stored(Finish finish) noexcept { return finish == Finish::clamped || finish == Finish::unsigned_zero; }

// The whole cast of lanes x without Inf and NaN.
template <bool Value, Way W, Rounding R, Finish F>
WordLanes cast_lanes(WordLanes x, const RoundPlan& p, const RandomLanes& random) noexcept {
  if constexpr (W == Way::power) return power_of_two<Value, R, F>(x, p, random);
  if constexpr (F == Finish::natural) return round_magnitude<Value, W, R>(x, negative_mask(x), p, random);
  if constexpr (F == Finish::integer) {
    const FloatLanes sum = as_float(clamp(x, p.overflow_above[1], p.overflow_above[0])) + p.integer_anchor;
    if constexpr (Value) return as_words(sum - p.integer_anchor);
    else return as_words(sum) & p.code_mask;
  }
  if constexpr (Value && W == Way::anchor && rounds_integrally<R> && F != Finish::full) return round_integrally<R, F>(x, p);
  WordLanes a = magnitude(x);
  const WordLanes negative = negative_mask(x);
  if constexpr (F == Finish::full) a = select(above(splat(p.flush_inputs_below), a), WordLanes{}, a);
  const WordLanes before = a;
  if constexpr (F == Finish::clamped || F == Finish::by_sign || F == Finish::unsigned_zero) a = smaller(a, splat(p.clamp_word));

  WordLanes result = round_magnitude<Value, W, R>(a, negative, p, random);
  const auto with_sign = [&](WordLanes magnitude_word) {
    if constexpr (Value) return select(splat(0x80000000u), x, magnitude_word);
    else return magnitude_word | (negative & p.sign_word);
  };
  if constexpr (F == Finish::clamped) {
    if constexpr (Value) return with_sign(result);
    else return result;
  } else if constexpr (F == Finish::unsigned_zero) {
    if constexpr (Value) return result | (negative & 0x80000000u & above(result, WordLanes{}));
    else return result;
  } else if constexpr (F == Finish::selected) {
    WordLanes overflow = above(a, splat(p.overflow_above[0]));
    if constexpr (R == Rounding::stochastic) overflow |= above(result, splat(p.largest_word));
    return with_sign(select(overflow, splat(p.overflow_word[0]), result));
  } else if constexpr (F == Finish::by_sign) {
    // up: positive values overflow, down: negative ones; the other sign stays at the largest value.
    constexpr bool upward = R == Rounding::up;
    const WordLanes outward = upward ? ~negative : negative;
    return select(above(before, splat(p.clamp_word)) & outward, splat(p.overflow_word[upward ? 0 : 1]), with_sign(result));
  } else {
    WordLanes overflow = above(a, select(negative, splat(p.overflow_above[1]), splat(p.overflow_above[0])));
    if constexpr (R == Rounding::stochastic) overflow |= above(result, splat(p.largest_word));
    const WordLanes is_zero = as<WordLanes>(result == 0) | above(splat(p.flush_results_below), result);
    const WordLanes turned = p.twos_complement && !Value ? negative : WordLanes{};
    result = (((result ^ turned) - turned) & p.code_mask) | (negative & p.sign_word);
    result = select(is_zero, select(negative, splat(p.zero_word[1]), splat(p.zero_word[0])), result);
    return select(overflow, select(negative, splat(p.overflow_word[1]), splat(p.overflow_word[0])), result);
  }
}

// Vectors that share one look for specials and keep the pipes busy while each waits for its additions: as many as the
// registers hold, fewer for the longer kernels.
constexpr int vectors_for(Way way, Rounding rounding, Finish finish) noexcept {
  const bool is_long = rounding == Rounding::stochastic || rounding == Rounding::nearest_to_zero || rounding == Rounding::to_odd;
  return is_long || (finish == Finish::full && way != Way::power) ? 4 : 8;
}

// The random words of a block, the bits that count moved to the top.
template <int Vectors>
void fill_random(RandomLanes (&random)[Vectors], const CastJob& job, size_t index) noexcept {
  const int shift = 32 - job.cast.random_bits;
  for (int k = 0; k < Vectors; ++k)
    random[k].top = random_words(job.seed, job.first + index + static_cast<size_t>(k * lane_count)) << shift;
}

// Inf and NaN (and subnormals rounded to powers of two at random) are left to the scalar functions.
template <Way W, Rounding R, int Vectors>
bool has_special_lane(const WordLanes (&x)[Vectors]) noexcept {
  WordLanes top = magnitude(x[0]);
  for (int k = 1; k < Vectors; ++k) top = larger(top, magnitude(x[k]));
  if (any_above(top, 0x7F7FFFFF)) return true;
  if constexpr (W != Way::power || R != Rounding::stochastic) return false;
  WordLanes least = splat(~0u);  // one less than a, so that zero is the largest word of all
  for (int k = 0; k < Vectors; ++k) least = lesser_unsigned(least, magnitude(x[k]) - 1);
  return any_above(~least, ~0x007FFFFFu);
}

// Blocks from `begin` on up to one with specials or to the last whole one; returns where it ends. A function of its own: what
// is called on the way would push the constants out of their registers.
template <class Out, Way W, Rounding R, Finish F>
[[gnu::noinline]] size_t cast_blocks(const float* in, Out* out, size_t begin, size_t end, const CastJob& job) noexcept {
  constexpr bool value = std::is_same_v<Out, float>;
  constexpr int block_vectors = vectors_for(W, R, F);
  constexpr size_t block_size = static_cast<size_t>(block_vectors * lane_count);
  const RoundPlan plan = job.plan;  // a copy: stores through out cannot change it
  RandomLanes random[block_vectors] = {};
  size_t i = begin;
  for (; i + block_size <= end; i += block_size) {
    WordLanes x[block_vectors];
    for (int k = 0; k < block_vectors; ++k) x[k] = load(in + i + k * lane_count);
    ask_ahead(in + i, block_size * sizeof(float)), ask_ahead(out + i, block_size * sizeof(Out));
    if (has_special_lane<W, R, block_vectors>(x)) [[unlikely]] break;
    if constexpr (W == Way::half) {
      for (int k = 0; k < block_vectors; ++k) {
        const HalfLanes half = to_half(F == Finish::clamped ? clamp(x[k], plan.clamp_word, plan.clamp_word) : x[k]);
        if constexpr (value) store(out + i + k * lane_count, from_half(half));
        else store(out + i + k * lane_count, half);
      }
      continue;
    }
    if constexpr (R == Rounding::stochastic) fill_random(random, job, i);
    WordLanes result[block_vectors];
    for (int k = 0; k < block_vectors; ++k) result[k] = cast_lanes<value, W, R, F>(x[k], plan, random[k]);
    for (int k = 0; k < block_vectors; k += 4) {
      if constexpr (!value && sign_is_stored(F))
        store_signed<F == Finish::unsigned_zero>(out + i + k * lane_count, result + k, x + k, plan.sign_shift, plan.sign_word);
      else store_narrow(out + i + k * lane_count, result + k);
    }
  }
  return i;
}

template <class Out, Way W, Rounding R, Finish F>
void cast_part(const float* in, Out* out, size_t begin, size_t end, const CastJob& job) noexcept {
  in_blocks(
      begin, ahead_of_lines(out + begin, end - begin), end, static_cast<size_t>(vectors_for(W, R, F) * lane_count),
      [&](size_t i) { return cast_blocks<Out, W, R, F>(in, out, i, end, job); },
      [&](size_t i, size_t stop) { cast_one_by_one(in, out, i, stop, job); });
}

// The cast to one byte that is used most: to nearest even, clamped, by byte operations. Four rows share one look for
// specials, which comes when all are written; then each row is looked at alone.
template <bool SignOnTop>
void cast_bytes(const float* in, uint8_t* out, size_t begin, size_t end, const CastJob& job) noexcept {
  const RoundPlan& plan = job.plan;
  const ByteEncoding bytes{plan.min_exponent_bits,
                           as<float>(static_cast<uint32_t>(127 + plan.cut) << 23),
                           static_cast<uint8_t>(plan.min_exponent_bits >> 23),
                           static_cast<int8_t>(23 - plan.cut),
                           static_cast<uint8_t>(plan.overflow_word[0]),
                           static_cast<int8_t>(24 - plan.sign_shift),
                           static_cast<uint8_t>(plan.sign_word)};
  constexpr size_t row = 16, rows = 4 * row;
  size_t i = begin;
  for (; i + rows <= end; i += rows) {
    HalfRow tops{};
    for (size_t k = 0; k < rows; k += row) encode_bytes<SignOnTop>(in + i + k, out + i + k, bytes, tops);
    if (!is_special(tops)) [[likely]] continue;
    for (size_t k = i; k < i + rows; k += row) {
      HalfRow own{};
      encode_bytes<SignOnTop>(in + k, out + k, bytes, own);
      if (is_special(own)) cast_one_by_one(in, out, k, k + row, job);
    }
  }
  cast_one_by_one(in, out, i, end, job);
}

template <class Out, Way W, Rounding R>
CastKernel<Out> choose_by_finish(const RoundPlan& plan) {
  const Finish finish = plan.finish;
  constexpr bool directed = R == Rounding::up || R == Rounding::down;
  if constexpr (W == Way::power && !std::is_same_v<Out, float>) {
    if (finish == Finish::natural) return cast_part<Out, W, R, Finish::natural>;
    if (finish == Finish::selected) return cast_part<Out, W, R, Finish::selected>;
  }
  if constexpr (W == Way::field) {
    if (finish == Finish::natural) return cast_part<Out, W, R, Finish::natural>;
  }
  if constexpr (has_byte_lanes && W == Way::anchor && R == Rounding::nearest_even && sizeof(Out) == 1) {
    if (finish == Finish::clamped) return plan.sign_shift == 24 ? cast_bytes<true> : cast_bytes<false>;
  }
  if constexpr (W == Way::field || W == Way::anchor) {
    if (finish == Finish::clamped) return cast_part<Out, W, R, Finish::clamped>;
  }
  if constexpr (W == Way::anchor) {
    if constexpr (directed) {
      if (finish == Finish::by_sign) return cast_part<Out, W, R, Finish::by_sign>;
    } else {
      if (finish == Finish::selected) return cast_part<Out, W, R, Finish::selected>;
    }
    if constexpr (R == Rounding::nearest_even) {
      if (finish == Finish::unsigned_zero) return cast_part<Out, W, R, Finish::unsigned_zero>;
      if (finish == Finish::integer) return cast_part<Out, W, R, Finish::integer>;
    }
  }
  return cast_part<Out, W, R, Finish::full>;
}

template <class Out, Way W>
CastKernel<Out> choose_by_rounding(const CastJob& job) {
  const RoundPlan& plan = job.plan;
  switch (job.cast.rounding) {
    case Rounding::nearest_even: return choose_by_finish<Out, W, Rounding::nearest_even>(plan);
    case Rounding::nearest_away: return choose_by_finish<Out, W, Rounding::nearest_away>(plan);
    case Rounding::nearest_to_zero: return choose_by_finish<Out, W, Rounding::nearest_to_zero>(plan);
    case Rounding::toward_zero: return choose_by_finish<Out, W, Rounding::toward_zero>(plan);
    case Rounding::up: return choose_by_finish<Out, W, Rounding::up>(plan);
    case Rounding::down: return choose_by_finish<Out, W, Rounding::down>(plan);
    case Rounding::to_odd: return choose_by_finish<Out, W, Rounding::to_odd>(plan);
    case Rounding::stochastic: return choose_by_finish<Out, W, Rounding::stochastic>(plan);
  }
  return cast_one_by_one<Out>;
}

template <class Out>
CastKernel<Out> choose_kernel(const CastJob& job) {
  switch (job.plan.way) {
    case Way::anchor: return choose_by_rounding<Out, Way::anchor>(job);
    case Way::field: return choose_by_rounding<Out, Way::field>(job);
    case Way::power: return choose_by_rounding<Out, Way::power>(job);
    case Way::half:
      if constexpr (has_half_lanes && (std::is_same_v<Out, float> || sizeof(Out) == 2))
        return job.plan.finish == Finish::natural ? cast_part<Out, Way::half, Rounding::nearest_even, Finish::natural>
                                                  : cast_part<Out, Way::half, Rounding::nearest_even, Finish::clamped>;
      break;
    case Way::scalar: break;
  }
  return cast_one_by_one<Out>;
}

}  // namespace narrow::detail::inline NARROW_LANES
