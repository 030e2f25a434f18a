#include "narrow/array/round_plan.hpp"

#include <algorithm>
#include <optional>

#include "narrow/array/kernels.hpp"
#include "narrow/round/round_to.hpp"

namespace narrow::detail {

namespace {

float from_word(std::uint32_t word) { return std::bit_cast<float>(word); }

// The largest finite magnitude word for which holds(word) is true, given that it is true up to some word and false from
// there on; ~0 when it is false at once.
template <class Predicate>
std::uint32_t last_word(const Predicate& holds) {
  std::uint32_t low = 0, high = 0x7F800000;  // holds below low, fails from high on
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (holds(middle)) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

bool has_float_exponents(const Format& f) {
  return f.exponent_bits == 8 && f.bias == 127 && f.specials == Specials::inf_and_nan && f.has_sign;
}

// The anchor c = 2^(E + cut) of every finite magnitude in range, its 2^-24 (half a quantum) and 2^55 / c must be floats,
// and x + c must not round twice: at most 22 mantissa bits.
bool anchor_is_float(const Format& f) {
  const int cut = 23 - f.mantissa_bits;
  const bool range = f.min_exponent() >= -70 && f.min_quantum_exponent() >= -140 && f.max_exponent() + 2 + cut <= 126;
  return f.has_zero && f.has_sign && cut >= 1 && range && !f.ties_to_even_code();
}

Way choose_way(const Format& f, const Cast& cast) {
  if (cast.rounding == Rounding::stochastic && cast.random_bits > 32) return Way::scalar;
  if (!f.has_zero && !f.has_sign && f.exponent_bits == 8 && f.mantissa_bits == 0 && f.bias == 127 &&
      cast.subnormals == Subnormals::keep)
    return Way::power;
  if (has_float_exponents(f)) return Way::field;
  if (array_kernels().has_half && f == "fp16"_fmt && cast.rounding == Rounding::nearest_even &&
      cast.subnormals == Subnormals::keep && cast.zero == Zero::keep_sign)
    return Way::half;
  return anchor_is_float(f) ? Way::anchor : Way::scalar;
}

// largest_code: the magnitude of the largest finite code, when codes come out; 0 when values do.
template <class ToWord>
Finish choose_finish(const Format& f, const Cast& cast, RoundPlan& p, const ToWord& to_word, std::uint32_t largest_code) {
  const bool directed = cast.rounding == Rounding::up || cast.rounding == Rounding::down;
  const bool nearest = cast.rounding == Rounding::nearest_even || cast.rounding == Rounding::nearest_away ||
                       cast.rounding == Rounding::nearest_to_zero;
  if (p.way == Way::power) {
    if (p.zero_word[0] != 0 || largest_code == 0) return Finish::full;
    return p.negative_word >= 0 ? Finish::selected : Finish::natural;
  }
  if (cast.subnormals != Subnormals::keep || cast.zero != Zero::keep_sign) return Finish::full;
  if ((p.way == Way::field || p.way == Way::half) && cast.overflow == Overflow::to_special) return Finish::natural;
  if (f.twos_complement) return cast.rounding == Rounding::nearest_even ? Finish::integer : Finish::full;
  if (!f.has_negative_zero() && cast.rounding != Rounding::nearest_even) return Finish::full;
  if (cast.rounding == Rounding::stochastic) return Finish::selected;
  const Finish clamped = f.has_negative_zero() ? Finish::clamped : Finish::unsigned_zero;

  // Does the largest word in range give what an overflow gives?
  const std::uint32_t in_range = std::min(p.overflow_above[0], p.overflow_above[1]);
  p.clamp_word = in_range;
  if (to_word(from_word(in_range)) == p.overflow_word[0] && to_word(-from_word(in_range)) == p.overflow_word[1])
    return clamped;
  // Does the first word beyond, whose code is one more than the largest? So it is for the codes of Inf, and of NaN in
  // formats without Inf.
  if (nearest && largest_code != 0 && p.overflow_word[0] == largest_code + 1 &&
      p.overflow_word[1] == f.with_sign(largest_code + 1, true)) {
    p.clamp_word = in_range + 1;
    return clamped;
  }
  if (!f.has_negative_zero()) return Finish::full;
  return directed ? Finish::by_sign : Finish::selected;
}

// to_word: the result of a float as the kernel writes it, with a random word that always rounds up.
template <class ToWord>
RoundPlan make_plan(const Format& f, const Cast& cast, const ToWord& to_word, std::uint32_t largest_code) {
  RoundPlan p;
  p.way = choose_way(f, cast);
  if (p.way == Way::scalar) return p;
  p.cut = 23 - f.mantissa_bits;
  p.twos_complement = f.twos_complement;
  if (p.way == Way::anchor) {
    p.min_exponent_bits = static_cast<std::uint32_t>(f.min_exponent() + 127) << 23;
    p.anchor_shift = static_cast<std::uint32_t>(p.cut) << 23;
    // s = x + c has the word c + kept, and the code is ((E - min_exponent) << m) + kept.
    p.code_offset = p.anchor_shift + (static_cast<std::uint32_t>(f.min_exponent() + 127) << f.mantissa_bits);
  }
  if (f.is_integer()) p.integer_anchor = static_cast<float>(compose(false, 3, 22 + f.min_quantum_exponent()));
  for (const bool negative : {false, true}) {
    const std::uint32_t sign = negative ? 0x80000000u : 0;
    // Words at a fixed bit carry into the word of Inf by themselves.
    const bool carries = p.way == Way::power || (p.way == Way::field && cast.overflow == Overflow::to_special);
    p.overflow_above[negative] = carries ? 0x7FFFFFFF : last_word_in_range(f, cast, negative);
    p.overflow_word[negative] = to_word(from_word(sign | 0x7F7FFFFF));
    p.zero_word[negative] = to_word(from_word(sign));
  }
  if (cast.subnormals == Subnormals::flush_inputs) p.flush_inputs_below = 0x00800000;
  if (p.way == Way::power) {
    p.grow_from = 0x800000;
    for (std::uint32_t fraction = 0x400002; fraction-- > 0x3FFFFF;)
      if (encode(from_word(0x3F800000 + fraction), f, cast) > 127) p.grow_from = fraction;
    if (encode(from_word(0x3F800001), f, cast) > 127) p.grow_from = 1;
    p.low_grow_from = last_word([&](std::uint32_t w) { return w == 0 || (w < 0x00800000 && encode(from_word(w), f, cast) == 0); }) + 1;
    if (cast.rounding == Rounding::stochastic) p.grow_from = 0;
    if (cast.negative == Negative::to_nan) p.negative_word = static_cast<std::int32_t>(to_word(-1.0f));
  }
  p.finish = choose_finish(f, cast, p, to_word, largest_code);
  return p;
}

// Small arrays come one after another with the same cast, and a plan takes longer than they do: each thread keeps its
// last one of a kind.
struct KeptPlan {
  Format format;
  Cast cast;
  RoundPlan plan;
};
template <class Make>
RoundPlan kept(std::optional<KeptPlan>& last, const Format& f, const Cast& cast, const Make& make) {
  if (!last || !(last->format == f) || !(last->cast == cast)) last = KeptPlan{f, cast, make()};
  return last->plan;
}

RoundPlan make_value_plan(const Format& f, const Cast& cast) {
  RoundPlan p = make_plan(f, cast, [&](float x) { return std::bit_cast<std::uint32_t>(round_to(x, f, cast, ~0ull)); }, 0);
  p.sign_word = 0x80000000u;
  p.largest_word = std::bit_cast<std::uint32_t>(static_cast<float>(largest(f)));
  if (cast.subnormals == Subnormals::flush_results && f.has_subnormals())
    p.flush_results_below = std::bit_cast<std::uint32_t>(static_cast<float>(smallest_normal(f)));
  return p;
}

RoundPlan make_code_plan(const Format& f, const Cast& cast) {
  RoundPlan p = make_plan(f, cast, [&](float x) { return static_cast<std::uint32_t>(encode(x, f, cast, ~0ull)); },
                          static_cast<std::uint32_t>(f.max_magnitude()));
  p.largest_word = static_cast<std::uint32_t>(f.max_magnitude());
  p.sign_word = f.twos_complement ? 0 : static_cast<std::uint32_t>(f.sign_mask());
  p.sign_shift = 32 - f.width();
  p.code_mask = static_cast<std::uint32_t>(f.code_mask());
  if (cast.subnormals == Subnormals::flush_results && f.has_subnormals())
    p.flush_results_below = static_cast<std::uint32_t>(f.mantissa_mask() + 1);
  return p;
}

}  // namespace

std::uint32_t last_word_in_range(const Format& f, const Cast& cast, bool negative) {
  const Cast rounding{.rounding = cast.rounding == Rounding::stochastic ? Rounding::toward_zero : cast.rounding};
  return last_word([&](std::uint32_t word) { return !overflows(negative ? -from_word(word) : from_word(word), f, rounding); });
}

RoundPlan value_plan(const Format& f, const Cast& cast) {
  thread_local std::optional<KeptPlan> last;
  return kept(last, f, cast, [&] { return make_value_plan(f, cast); });
}
RoundPlan code_plan(const Format& f, const Cast& cast) {
  thread_local std::optional<KeptPlan> last;
  return kept(last, f, cast, [&] { return make_code_plan(f, cast); });
}

}  // namespace narrow::detail
