// The seed under which an array pass over a piece draws the random bits of its place in the whole.
#pragma once

#include <cstdint>

#include "narrow/base/random.hpp"

namespace narrow {

// random_bits(seed, first + i) = mix(seed + (first + i) * step) = random_bits(seed + first * step, i)
constexpr std::uint64_t seed_at(std::uint64_t seed, std::uint64_t first) noexcept {
  return seed + first * 0x9E3779B97F4A7C15ull;
}
static_assert(random_bits(7, 1000 + 23) == random_bits(seed_at(7, 1000), 23));

}  // namespace narrow
