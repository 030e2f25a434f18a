// Integers as rows of bits: the 128-bit integer and bit lengths. Knows nothing of number formats.
//
//   static_assert(bit_length(std::uint64_t{10}) == 4);
//   static_assert(low_mask(3) == 7);
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#ifdef __FAST_MATH__
#error "narrow computes exact bits: compile without -ffast-math (and without -Ofast)"
#endif

namespace narrow {

// The widest integer of the arithmetic.
__extension__ typedef unsigned __int128 U128;

// floor(log2 x) + 1, and 0 for 0.
constexpr int bit_length(std::uint64_t x) noexcept {
#ifdef __CUDA_ARCH__
  // nvcc 13 turns std::bit_width into a constant in device code, without a word.
  if (!std::is_constant_evaluated()) return 64 - __clzll(static_cast<long long>(x));
#endif
  return static_cast<int>(std::bit_width(x));
}
constexpr int bit_length(U128 x) noexcept {
  const auto high = static_cast<std::uint64_t>(x >> 64);
  return high != 0 ? 64 + bit_length(high) : bit_length(static_cast<std::uint64_t>(x));
}

// n ones, for 0 <= n <= 64 (a shift by 64 would be undefined).
constexpr std::uint64_t low_mask(int n) noexcept { return n >= 64 ? ~0ull : (1ull << n) - 1; }

// x / 2^n cut down, for any n >= 0; and whether anything was cut.
template <class Integer>
constexpr Integer shift_right(Integer x, int n) noexcept {
  return n >= static_cast<int>(8 * sizeof(Integer)) ? Integer{0} : static_cast<Integer>(x >> n);
}
constexpr bool loses_bits(U128 x, int n) noexcept {
  return n >= 128 ? x != 0 : (x & ((U128{1} << n) - 1)) != 0;
}

}  // namespace narrow
