// Up or not: the one rounding decision, and the only switch over rounding modes.
//
//   static_assert(decide({}, false, /*kept_is_odd=*/true, std::uint64_t{1} << 63, false, 0));  // a tie
#pragma once

#include "narrow/base/bits.hpp"
#include "narrow/round/cast.hpp"

namespace narrow {

// A magnitude was cut to an integer `kept` of quanta. What was cut off is the fraction
//   rest / 2^64  (+ something below 2^-64 when `below`)       0 <= fraction < 1
// The answer is whether the magnitude grows to kept + 1. A rest of zero never moves: every case needs rest or below.
constexpr bool decide(const Cast& cast, bool negative, bool kept_is_odd, std::uint64_t rest, bool below,
                      std::uint64_t random) noexcept {
  constexpr std::uint64_t half = 1ull << 63;
  const bool inexact = rest != 0 || below;
  switch (cast.rounding) {
    case Rounding::nearest_even: return rest > half || (rest == half && (below || kept_is_odd));
    case Rounding::nearest_away: return rest >= half;
    case Rounding::nearest_to_zero: return rest > half || (rest == half && below);
    case Rounding::toward_zero: return false;
    case Rounding::up: return !negative && inexact;
    case Rounding::down: return negative && inexact;
    case Rounding::to_odd: return !kept_is_odd && inexact;
    case Rounding::stochastic: {
      // floor(fraction * 2^n) + random mod 2^n >= 2^n, asked without the carry:  random mod 2^n > 2^n - 1 - floor(...)
      const int n = cast.random_bits < 0 ? 0 : cast.random_bits > 64 ? 64 : cast.random_bits;
      return (random & low_mask(n)) > low_mask(n) - shift_right(rest, 64 - n);
    }
  }
  return false;
}

}  // namespace narrow
