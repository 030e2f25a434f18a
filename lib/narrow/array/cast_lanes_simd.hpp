// The cast of a few floats at once: from magnitudes to rounded values (Value) or codes (not Value), in every mode.
// The scalar functions decide what is right; these lanes only do the same faster.
#pragma once

#include "narrow/array/lanes_simd.hpp"
#include "narrow/array/round_plan.hpp"

namespace narrow::detail {

// Random words of stochastic lanes: the bits that count, at the top; and the bits of the fraction that count.
struct RandomLanes {
  WordLanes top;
  std::uint32_t fraction_mask;
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
  if constexpr (R == Rounding::up) return select(negative, cut_word, word - above(a, r));
  if constexpr (R == Rounding::down) return select(negative, word - above(a, r), cut_word);
  if constexpr (R == Rounding::to_odd) return cut_word | (differs(r, a) & 1);
  const FloatLanes half = c * 0x1p-24f;
  if constexpr (R == Rounding::nearest_away) return word - std::bit_cast<WordLanes>(a - r == half);
  if constexpr (R == Rounding::nearest_to_zero) return word + std::bit_cast<WordLanes>(r - a == half);
  if constexpr (R == Rounding::stochastic) {
    // rest / quantum * 2^32, exact: 2^55 / c is 2^32 / quantum. Adding the random word carries out with that probability.
    const FloatLanes rest = a - (as_float(cut_word) - c);
    const FloatLanes per_quantum = as_float(splat((55 + 254) << 23) - as_words(c));
    const WordLanes fraction = convert_to_words(rest * per_quantum) & random.fraction_mask;
    return cut_word - std::bit_cast<WordLanes>(fraction + random.top < fraction);
  }
  return word;
}

// What is added to a word before its low `cut` bits are cleared, so that the carry is the decision.
template <Rounding R>
WordLanes field_addend(WordLanes word, int cut, WordLanes negative, const RandomLanes& random) noexcept {
  const std::uint32_t all = (1u << cut) - 1, half = cut > 0 ? 1u << (cut - 1) : 0;
  switch (R) {
    case Rounding::nearest_even: return cut > 0 ? (half - 1) + ((word >> cut) & 1) : WordLanes{};
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

// Magnitudes a (below Inf) to results without sign.
template <bool Value, Way W, Rounding R>
WordLanes round_magnitude(WordLanes a, WordLanes negative, const RoundPlan& p, const RandomLanes& random) noexcept {
  if constexpr (W == Way::anchor) {
    const WordLanes e = larger(a & 0x7F800000u, splat(p.min_exponent_bits));
    const FloatLanes c = as_float(e + p.anchor_shift);
    const WordLanes word = anchored<R>(as_float(a), c, negative, random);
    if constexpr (Value) return as_words(as_float(word) - c);
    else return word + (e >> p.cut) - e - p.code_offset;
  }
  const std::uint32_t low = (1u << p.cut) - 1;
  WordLanes word = (a + field_addend<R>(a, p.cut, negative, random)) & ~low;
  if constexpr (R == Rounding::to_odd)
    word |= std::bit_cast<WordLanes>(std::bit_cast<IntLanes>(a & low) > 0) & (1u << p.cut);
  return Value ? word : word >> p.cut;
}

// e8m0: the exponent field, one more when the fraction says so. Lanes with 0 < a < 2^-126 are not for this.
template <bool Value, Rounding R>
WordLanes power_of_two(WordLanes a, WordLanes negative, const RoundPlan& p, const RandomLanes& random) noexcept {
  const WordLanes fraction = a & 0x7FFFFFu;
  WordLanes grows;
  if constexpr (R == Rounding::stochastic) grows = above(fraction + (random.top >> 9), splat(0x7FFFFF));
  else grows = above(fraction, splat(p.grow_from - 1));
  WordLanes result = (a >> 23) - grows;
  const WordLanes overflow = above(result, splat(254));
  if constexpr (Value) result <<= 23;
  result = select(overflow, splat(p.overflow_word[0]), result);
  const WordLanes zero = std::bit_cast<WordLanes>(a == 0);
  if (p.negative_word >= 0) result = select(negative, splat(static_cast<std::uint32_t>(p.negative_word)), result);
  return select(zero, splat(p.zero_word[0]), result);
}

// The whole cast of lanes x without Inf and NaN.
template <bool Value, Way W, Rounding R, Finish F>
WordLanes cast_lanes(WordLanes x, const RoundPlan& p, const RandomLanes& random) noexcept {
  WordLanes a = magnitude(x);
  const WordLanes negative = negative_mask(x);
  if constexpr (W == Way::power) return power_of_two<Value, R>(a, negative, p, random);
  if constexpr (F == Finish::full) a = select(above(splat(p.flush_inputs_below), a), WordLanes{}, a);

  WordLanes result = round_magnitude<Value, W, R>(a, negative, p, random);
  constexpr bool both_signs = F == Finish::plain || F == Finish::unsigned_zero;
  WordLanes limit = splat(p.overflow_above[0]), beyond = splat(p.overflow_word[0]);
  if constexpr (!both_signs) {
    limit = select(negative, splat(p.overflow_above[1]), limit);
    beyond = select(negative, splat(p.overflow_word[1]), beyond);
  }
  WordLanes overflow = above(a, limit);
  if constexpr (R == Rounding::stochastic) overflow |= above(result, splat(p.largest_word));

  if constexpr (F == Finish::plain) {
    result = select(overflow, beyond, result);
    if constexpr (Value) return select(splat(0x80000000u), x, result);
    else return result | ((x >> p.sign_shift) & p.sign_word);
  }
  if constexpr (F == Finish::integer && !Value) {
    result = ((result ^ negative) - negative) & p.code_mask;
  } else if constexpr (F == Finish::by_sign) {
    result |= negative & p.sign_word;
  } else if constexpr (F == Finish::unsigned_zero || F == Finish::integer) {
    // Both specials of such a format have one code, which is no magnitude with a sign.
    result |= negative & p.sign_word & above(result, WordLanes{});
    if constexpr (F == Finish::unsigned_zero) beyond |= negative & p.beyond_sign;
  } else {
    const WordLanes is_zero = std::bit_cast<WordLanes>(result == 0) | above(splat(p.flush_results_below), result);
    const WordLanes turned = p.twos_complement && !Value ? negative : WordLanes{};
    result = (((result ^ turned) - turned) & p.code_mask) | (negative & p.sign_word);
    result = select(is_zero, select(negative, splat(p.zero_word[1]), splat(p.zero_word[0])), result);
  }
  return select(overflow, beyond, result);
}

}  // namespace narrow::detail
