// The exact sum of any number of floats, and its quotient by a count: what every order of an all-reduce comes near.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "narrow/round/round_exact.hpp"

namespace narrow::cluster {

// An integer in units of 2^-149, the smallest float, in limbs of 32 bits that may overflow into 64: 2^31 floats can be
// added before a carry is due.
class ExactSum {
 public:
  void add(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t field = bits >> 23 & 0xFF;
    if (field == 0xFF) {
      (bits << 9 != 0 ? has_nan_ : bits >> 31 != 0 ? has_minus_inf_ : has_inf_) = true;
      return;
    }
    const std::uint64_t significand = (bits & 0x7FFFFF) | (field == 0 ? 0 : 0x800000);
    const std::uint32_t shift = field == 0 ? 0 : field - 1;
    const std::uint64_t word = significand << shift % 32;  // at most 24 + 31 bits
    const std::int64_t sign = bits >> 31 != 0 ? -1 : 1;
    limbs_[shift / 32] += sign * static_cast<std::int64_t>(word & 0xFFFFFFFF);
    limbs_[shift / 32 + 1] += sign * static_cast<std::int64_t>(word >> 32);
  }

  bool is_nan() const { return has_nan_ || (has_inf_ && has_minus_inf_); }
  bool is_finite() const { return !has_nan_ && !has_inf_ && !has_minus_inf_; }
  bool is_minus_inf() const { return has_minus_inf_; }

  // Finite sums only: sum / divisor to 128 bits, with what is below as sticky. A sum of zero is +0.
  Exact quotient(std::uint32_t divisor = 1) const {
    constexpr std::size_t below = 4;  // limbs of zeros, so that the quotient has 128 bits whatever the sum
    std::array<std::int64_t, limb_count + below> n{};
    std::int64_t carry = 0;
    for (std::size_t i = 0; i < limb_count; ++i) {
      const std::int64_t sum = limbs_[i] + carry;
      n[i + below] = sum & 0xFFFFFFFF;
      carry = sum >> 32;
    }
    const bool negative = carry < 0;
    if (negative) {  // two's complement
      carry = 1;
      for (std::int64_t& limb : n) {
        const std::int64_t flipped = (~limb & 0xFFFFFFFF) + carry;
        limb = flipped & 0xFFFFFFFF;
        carry = flipped >> 32;
      }
    }
    std::uint64_t rest = 0;
    for (std::size_t i = n.size(); i-- > 0;) {
      const std::uint64_t part = rest << 32 | static_cast<std::uint64_t>(n[i]);
      n[i] = static_cast<std::int64_t>(part / divisor);
      rest = part % divisor;
    }
    std::size_t top = n.size();
    while (top > 0 && n[top - 1] == 0) --top;
    if (top == 0) return {false, 0, 0, false};
    U128 significand = 0;
    const std::size_t bottom = top > 4 ? top - 4 : 0;
    for (std::size_t i = top; i-- > bottom;) significand = significand << 32 | static_cast<std::uint64_t>(n[i]);
    bool sticky = rest != 0;
    int exponent = static_cast<int>(32 * bottom) - static_cast<int>(32 * below) - 149;
    if (bottom > 0) {  // the upper bits of the limb below fill the word
      const int free = 128 - bit_length(significand);
      const auto next = static_cast<std::uint64_t>(n[bottom - 1]);
      significand = significand << free | next >> (32 - free);
      sticky = sticky || (next << (32 + free)) != 0;
      exponent -= free;
      for (std::size_t i = 0; i + 1 < bottom; ++i) sticky = sticky || n[i] != 0;
    }
    return {negative, significand, exponent, sticky};
  }

 private:
  static constexpr std::size_t limb_count = 10;  // 277 bits of floats, 32 of counts
  std::array<std::int64_t, limb_count> limbs_{};
  bool has_nan_ = false, has_inf_ = false, has_minus_inf_ = false;
};

}  // namespace narrow::cluster
