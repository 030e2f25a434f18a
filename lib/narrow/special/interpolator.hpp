// The quadratic interpolator of the special-function unit, bit for bit.
#pragma once

#include <bit>
#include <cstdint>

#include "narrow/base/bits.hpp"

namespace narrow::detail {

struct Coefficients {
  std::uint32_t c0, c1, c2;
};

// A magnitude has 17 bits at most. Of the products of its bits, x_i at column 2i and x_i x_j at column i + j + 1, those
// below column 19 are left out: bit j meets the bits 18 - j to j - 1 and itself.
constexpr std::uint64_t truncated_square(std::uint64_t x) noexcept {
  std::uint64_t sum = 0;
  for (int j = 10; j <= 16; ++j)
    sum += (x >> j & 1) * (((x & (low_mask(j) - low_mask(18 - j))) + (std::uint64_t{1} << (j - 1))) >> (18 - j));
  return sum << 19;
}

// sum = c0 2^a0 +- c1 xl 2^a1 +- c2 square(xl) + bias, with one = 2^weight. The upper index_bits of a fraction of 23
// bits choose the row, the others are xl.
struct Interpolator {
  int index_bits, a0, a1, weight;
  bool adds_c1, adds_c2;
  std::uint64_t bias;
  bool halves_xl = false;  // xl has a bit more in the squarer

  constexpr std::uint64_t operator()(const Coefficients* rows, std::uint32_t fraction, int half = 0) const noexcept {
    const int low_bits = 23 - index_bits;
    const Coefficients& c = rows[static_cast<int>(fraction >> low_bits) + half];
    const std::uint64_t xl = fraction & low_mask(low_bits);
    const std::uint64_t square = halves_xl ? truncated_square(2 * xl) >> 2 : truncated_square(xl);
    const std::uint64_t first = (c.c1 * xl) << a1, second = c.c2 * square;
    std::uint64_t sum = std::uint64_t{c.c0} << a0;
    sum = adds_c1 ? sum + first : sum - first;
    sum = adds_c2 ? sum + second : sum - second;
    return sum + (bias >> (64 - weight + 23));
  }
  constexpr std::uint32_t fraction_of(std::uint64_t sum) const noexcept {
    return static_cast<std::uint32_t>(sum >> (weight - 23) & low_mask(23));
  }
};

// Those of the unit. sqrt and rsqrt have a second half of their tables for odd exponents.
inline constexpr Interpolator ex2_interpolator{6, 32, 19, 57, true, true, 0x6fc4000000000000};
inline constexpr Interpolator lg2_interpolator{6, 30, 18, 56, true, false, 0x868b000000000000};
inline constexpr Interpolator rcp_interpolator{7, 30, 17, 56, false, true, 0x67e7000000000000, true};
inline constexpr Interpolator sqrt_interpolator{6, 33, 18, 58, true, false, 0x7fff800000000000};
inline constexpr Interpolator rsqrt_interpolator{6, 31, 17, 57, false, true, 0x7fff800000000000};
inline constexpr Interpolator sin_interpolator{6, 31, 19, 56, true, false, 0};

// The one NaN that a GPU returns.
inline constexpr float gpu_nan = std::bit_cast<float>(0x7FFFFFFFu);

constexpr float float_of(bool negative, int exponent, std::uint32_t fraction) noexcept {
  return std::bit_cast<float>((negative ? 0x80000000u : 0u) | static_cast<std::uint32_t>(exponent) << 23 | fraction);
}

}  // namespace narrow::detail
