// Counter-based random bits: a pure function of (seed, index), so that any thread, split or device agrees.
//
//   const std::uint64_t of_element_7 = random_bits(/*seed=*/1, /*index=*/7);  // the same on every thread and device
#pragma once

#include <cstdint>

namespace narrow {

// The splitmix64 step: a bijection of 64-bit words whose outputs pass for random on consecutive inputs.
// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
constexpr std::uint64_t mix_bits(std::uint64_t z) noexcept {
  z += 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// Bits number `index` of the stream `seed`.
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t index) noexcept {
  return mix_bits(seed + index * 0x9E3779B97F4A7C15ull);
}

}  // namespace narrow
