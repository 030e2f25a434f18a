// What the lane kernels need to know about a format and a cast: a few words, computed once a call by asking the scalar
// functions, so that the rounding rules stand in one place.
#pragma once

#include "narrow/round/round_to.hpp"

namespace narrow::detail {

// How float lanes reach the target's quantum.
enum class Way : std::uint8_t {
  anchor,  // add and subtract a power of two whose last bit is the quantum: range within that of float
  field,   // the format has float's exponents: round the word at a fixed bit
  scalar   // no lanes: one element at a time
};

// What a code array needs to look like in the end. Words are float bits (values) or codes.
struct Target {
  std::uint32_t overflow[2];  // by sign, with the sign
  std::uint32_t infinity[2];
  std::uint32_t nan_keep;  // bits of the NaN word that stay (after the shift to the target, for codes)
  std::uint32_t nan_or[2];    // and what is set, by sign
  std::uint32_t zero[2];      // the words of +0 and -0
};

struct RoundPlan {
  Way way = Way::scalar;
  Rounding rounding = Rounding::nearest_even;
  std::uint32_t min_exponent_bits = 0;  // float bits of the smallest normal value (its exponent field)
  std::uint32_t anchor_shift = 0;       // (23 - m) << 23: from the exponent of x to that of the anchor
  int cut = 0;                          // 23 - m: bits of the word below the target's last bit
  std::uint32_t overflow_from[2] = {};  // by sign: the smallest magnitude word beyond the largest finite value
  std::uint32_t flush_inputs_below = 0;   // magnitudes below count as zero
  std::uint32_t flush_results_below = 0;  // results (as float words) below become zero
  bool plain = false;  // one overflow word and threshold for both signs and Inf, one NaN word, a negative zero, no flush
};

// The first magnitude word (float bits without sign) for which is_beyond holds; is_beyond is false, then true.
template <class Predicate>
constexpr std::uint32_t first_word(const Predicate& is_beyond) noexcept {
  std::uint32_t low = 0, high = 0x7F800000;  // Inf is beyond whatever finite words are
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (is_beyond(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

RoundPlan make_round_plan(const Format& f, const Cast& cast);
Target value_target(const Format& f, const Cast& cast);
Target code_target(const Format& f, const Cast& cast);

}  // namespace narrow::detail
