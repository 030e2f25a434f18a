// Sums whose every operation is rounded to nearest even in a narrow format, sixteen columns at once, carried in floats.
#pragma once

#include "narrow/dot/fused_lanes.hpp"

namespace narrow::detail {

// How floats are rounded at the last bit of the format.
struct RoundedLanes {
  int cut;                         // bits of a float below the format's last one
  std::int32_t min_exponent_bits;  // of the smallest normal value, as a float's word
  std::int32_t largest_word;       // of the largest value: beyond it the lanes do not know the result
  bool moves_word;                 // the format has float's exponents: round the word itself

  explicit RoundedLanes(const Format& f)
      : cut(23 - f.mantissa_bits),
        min_exponent_bits(std::bit_cast<std::int32_t>(static_cast<float>(smallest_normal(f)))),
        largest_word(std::bit_cast<std::int32_t>(static_cast<float>(largest(f)))),
        moves_word(f.max_exponent() + cut > 126) {}
};

// Anchor: x + c - c with c = 1.5 * 2^(e + cut), e the exponent of x. The last bit of c is the format's quantum there, so the
// addition rounds to nearest even at that bit (1.5 * 2^23 is even), and the subtraction is exact. The sign of a zero is lost.
//   max(e, emin) keeps the quantum of the subnormals.
// Word: half a quantum less one, and one more where the last bit kept is odd, is added before the rest is cleared.
template <bool MovesWord>
inline FloatFour round_four(FloatFour x, const RoundedLanes& r) {
  // Unsigned: the words of Inf and NaN wrap around, and what comes of them is not used.
  using Words [[gnu::vector_size(16)]] = std::uint32_t;
  const auto cut = static_cast<std::uint32_t>(r.cut);
  const IntFour word = words(x);
  if constexpr (MovesWord) {
    const auto w = std::bit_cast<Words>(word);
    return std::bit_cast<FloatFour>((w + ((w >> cut) & 1u) + ((1u << (cut - 1)) - 1u)) & (0u - (1u << cut)));
  }
  const IntFour exponent = larger(word & 0x7F800000, r.min_exponent_bits - IntFour{});
  const auto anchor = std::bit_cast<FloatFour>(std::bit_cast<Words>(exponent) + ((cut << 23) | 0x00400000u));
  return (x + anchor) - anchor;
}

// acc = round(acc + round(a * b)) for Rows rows. Right while every product is exact in a float, no start is -0 and nothing
// overflows; beyond[row][lane] becomes the largest magnitude seen.
template <bool MovesWord, std::size_t Rows>
inline void rounded_chain(const RoundedLanes& r, const float* const* a, const float* b, std::size_t products,
                          FloatFour (&acc)[Rows][4], IntFour (&beyond)[Rows][4]) {
  for (std::size_t k = 0; k < products; ++k, b += lane_columns)
    for (std::size_t row = 0; row < Rows; ++row)
      for (std::size_t v = 0; v < 4; ++v) {
        FloatFour y;
        __builtin_memcpy(&y, b + 4 * v, sizeof y);
        const FloatFour product = a[row][k] * y;
        const FloatFour sum = acc[row][v] + round_four<MovesWord>(product, r);
        beyond[row][v] = larger(beyond[row][v], larger(words(product) & 0x7FFFFFFF, words(sum) & 0x7FFFFFFF));
        acc[row][v] = round_four<MovesWord>(sum, r);
      }
}

}  // namespace narrow::detail
