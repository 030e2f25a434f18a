// What the lane kernels need to know about a format and a cast: a few words, computed once a call by asking the scalar
// functions, so that the rounding rules stand in one place.
#pragma once

#include "narrow/round/round_to.hpp"

namespace narrow::detail {

// How float lanes reach the target's quantum.
enum class Way : std::uint8_t {
  anchor,  // add a power of two whose last bit is the quantum: the format's range lies within that of float
  field,   // the format has float's exponents (bf16, tf32): round the word at a fixed bit
  power,   // the format has no mantissa (e8m0): exponent field plus a decision
  half,    // fp16 to nearest even as the CPU converts it
  scalar   // no lanes: one element at a time
};

// What a result needs besides its rounded magnitude; the shorter the kernel the faster.
enum class Finish : std::uint8_t {
  natural,        // nothing: overflow carries into the word of Inf, and the sign stays where it is
  clamped,        // magnitudes are cut to clamp_word first, which gives the result of an overflow by itself
  selected,       // magnitudes above overflow_above[0] give overflow_word[0], with the sign
  by_sign,        // clamped, but one sign gives overflow_word (directed modes)
  unsigned_zero,  // clamped, and there is no -0
  integer,        // two's complement to nearest even, clamped for each sign
  full            // everything at run time, subnormals flushed as well
};

// Words are float bits when values come out, codes when codes do.
struct RoundPlan {
  Way way = Way::scalar;
  int cut = 0;                          // 23 - m: bits of a float's word below the target's last bit
  std::uint32_t min_exponent_bits = 0;  // anchor: float bits of the smallest normal value
  std::uint32_t anchor_shift = 0;       // anchor: cut << 23, from the exponent of x to that of the anchor
  std::uint32_t code_offset = 0;        // anchor: what the code of an exponent field counts too much
  float integer_anchor = 0;             // integer: 1.5 * 2^23 quanta; x + it has the integer in its low bits
  std::uint32_t sign_word = 0;          // the sign bit of the result; 0 where there is none
  int sign_shift = 0;                   // from bit 31 to the sign bit of the result
  std::uint32_t code_mask = ~0u;        // the bits of the result
  bool twos_complement = false;
  std::uint32_t clamp_word = 0x7FFFFFFF;
  // A magnitude above these words (by sign) gives these results instead; 0x7FFFFFFF when no finite one does.
  std::uint32_t overflow_above[2] = {};
  std::uint32_t overflow_word[2] = {};
  std::uint32_t largest_word = 0;         // stochastic: a rounded magnitude above it has overflowed too
  std::uint32_t zero_word[2] = {};        // by sign
  std::uint32_t flush_inputs_below = 0;   // magnitudes below count as zero
  std::uint32_t flush_results_below = 0;  // results (as float words or codes, without sign) below become zero
  // power: from this fraction on (23 bits) the exponent grows; what negatives become (or -1: their magnitude)
  std::uint32_t grow_from = 0, low_grow_from = 0;  // the second for magnitudes below 2^-126
  std::int32_t negative_word = -1;
  Finish finish = Finish::full;
};

// For round_array and for encode_array. Every result that is Inf or NaN in the input is left to the scalar functions.
RoundPlan value_plan(const Format& f, const Cast& cast);
RoundPlan code_plan(const Format& f, const Cast& cast);

// The largest magnitude word of that sign that does not overflow. Stochastic: that may not, whatever the random word.
std::uint32_t last_word_in_range(const Format& f, const Cast& cast, bool negative);

}  // namespace narrow::detail
