// An exact sum of products of any two formats, and of an addend: a fixed-point number long enough for all of them.
#pragma once

#include <array>

#include "narrow/format/decode.hpp"
#include "narrow/round/round_exact.hpp"

namespace narrow {

// A two's complement integer of 64-bit limbs that counts units of 2^lowest. Products of doubles reach from 2^-2148 to
// 2^2048; the limbs leave 2^76 of room for carries.
class WideSum {
 public:
  static constexpr int lowest = -2176;

  constexpr void add(bool negative, U128 significand, int exponent) noexcept {
    if (significand == 0) return;
    const int place = exponent - lowest;
    const int shift = place % 64;
    const auto low = static_cast<std::uint64_t>(significand << shift);
    const auto middle = static_cast<std::uint64_t>((significand << shift) >> 64);
    const auto high = shift == 0 ? 0 : static_cast<std::uint64_t>(significand >> (128 - shift));
    const std::uint64_t words[3] = {low, middle, high};
    const auto first = static_cast<std::size_t>(place / 64);
    unsigned carry = 0;
    for (std::size_t i = first; i < limbs_.size(); ++i) {
      const std::uint64_t word = i - first < 3 ? words[i - first] : 0;
      if (i - first >= 3 && carry == 0) break;
      const std::uint64_t before = limbs_[i];
      if (negative) {
        limbs_[i] = before - word - carry;
        carry = before < word || (before == word && carry != 0) ? 1 : 0;
      } else {
        limbs_[i] = before + word + carry;
        carry = limbs_[i] < before || (limbs_[i] == before && word + carry != 0) ? 1 : 0;
      }
    }
  }

  constexpr bool is_negative() const noexcept { return limbs_.back() >> 63 != 0; }

  // The value as the top 128 bits and whether anything is below them.
  constexpr Exact exact() const noexcept {
    std::array<std::uint64_t, count> magnitude = limbs_;
    const bool negative = is_negative();
    if (negative) {
      unsigned carry = 1;
      for (std::uint64_t& limb : magnitude) {
        limb = ~limb + carry;
        carry = carry != 0 && limb == 0 ? 1 : 0;
      }
    }
    std::size_t top = count;
    while (top > 0 && magnitude[top - 1] == 0) --top;
    if (top == 0) return {};
    const auto limb = [&](std::size_t down) { return down < top ? magnitude[top - 1 - down] : 0; };
    const int lift = 64 - bit_length(limb(0));
    U128 significand = (U128{limb(0)} << 64) | limb(1);
    if (lift > 0) significand = (significand << lift) | (limb(2) >> (64 - lift));
    bool sticky = lift > 0 ? (limb(2) << lift) != 0 : limb(2) != 0;
    for (std::size_t down = 3; down < top; ++down) sticky = sticky || limb(down) != 0;
    return {negative, significand, lowest + 64 * (static_cast<int>(top) - 2) - lift, sticky};
  }

 private:
  static constexpr std::size_t count = 68;
  std::array<std::uint64_t, count> limbs_{};
};

}  // namespace narrow
