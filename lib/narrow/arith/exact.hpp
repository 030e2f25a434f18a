// Sums, products, quotients and roots of finite values, exact or cut so far down that no rounding can tell.
//
//   constexpr Unpacked third = unpack(encode(3.0F, "fp16"_fmt), "fp16"_fmt);
//   static_assert(round_exact(detail::exact_product(third, third), "fp16"_fmt) == encode(9.0F, "fp16"_fmt));
#pragma once

#include "narrow/round/round_exact.hpp"

namespace narrow::detail {

constexpr Exact to_exact(const Unpacked& u) noexcept { return {u.negative, u.significand, u.exponent, false}; }

// Two significands of at most 53 bits: at most 106 bits, exact.
constexpr Exact exact_product(const Unpacked& a, const Unpacked& b) noexcept {
  return {a.negative != b.negative, U128{a.significand} * b.significand, a.exponent + b.exponent, false};
}

// x + y for exact terms of at most 106 bits. The larger goes to bit 125, the smaller is aligned to it:
//   x  1xxxxxxxx....00000000|            bit 125 down to bit 0
//   y  00000yyyyyyyyyyyyyyyy|yyyy        what falls off the end is cut and remembered as sticky
// Bits fall off only when y < 2^106, so no cancellation follows and at least 124 bits stay: 64 more than fp64 keeps.
// Subtracting a cut y takes one unit more and leaves a positive tail:  X - (Y + t) = (X - Y - 1) + (1 - t).
// A sum of zero has the sign of `zero_is_negative`.
constexpr Exact exact_sum(const Exact& a, const Exact& b, bool zero_is_negative) noexcept {
  if (a.significand == 0 && b.significand == 0) return {zero_is_negative, 0, 0, false};
  const int top_a = a.significand == 0 ? -1'000'000 : a.exponent + bit_length(a.significand);
  const int top_b = b.significand == 0 ? -1'000'000 : b.exponent + bit_length(b.significand);
  const Exact& x = top_a >= top_b ? a : b;
  const Exact& y = top_a >= top_b ? b : a;
  const int lift = 126 - bit_length(x.significand);
  const U128 big = x.significand << lift;
  const int exponent = x.exponent - lift;
  const int drop = exponent - y.exponent;
  const bool sticky = drop > 0 && loses_bits(y.significand, drop);
  const U128 small = y.significand == 0 ? U128{0} : drop > 0 ? shift_right(y.significand, drop) : y.significand << -drop;
  if (x.negative == y.negative) return {x.negative, big + small, exponent, sticky};
  if (big >= small + (sticky ? 1 : 0)) {
    const U128 difference = big - small - (sticky ? 1 : 0);
    if (difference == 0 && !sticky) return {zero_is_negative, 0, 0, false};
    return {x.negative, difference, exponent, sticky};
  }
  return {y.negative, small - big, exponent, false};  // same top bit, y larger: then nothing was cut
}

// a / b, b not zero: 126 to 128 quotient bits by two divisions of 128 by 64 bits, the remainder as sticky.
constexpr Exact exact_quotient(const Unpacked& a, const Unpacked& b) noexcept {
  const bool negative = a.negative != b.negative;
  if (a.significand == 0) return {negative, 0, 0, false};
  const int lift_a = 64 - bit_length(a.significand), lift_b = 64 - bit_length(b.significand);
  const std::uint64_t n = a.significand << lift_a, d = b.significand << lift_b;
  const U128 high = (U128{n} << 63) / d;
  const U128 rest = ((U128{n} << 63) % d) << 64;
  return {negative, (high << 64) | (rest / d), a.exponent - lift_a - (b.exponent - lift_b) - 127, rest % d != 0};
}

// sqrt(a), a positive: 118 root bits, two bits of the radicand a step, the remainder as sticky.
//   invariant: radicand read so far = root^2 + remainder, remainder <= 2 root
constexpr Exact exact_sqrt(const Unpacked& a) noexcept {
  if (a.significand == 0) return {a.negative, 0, 0, false};
  int lift = 64 - bit_length(a.significand);
  if ((a.exponent - lift) % 2 != 0) --lift;  // an even exponent halves exactly; the top two bits still hold a one
  const std::uint64_t radicand = a.significand << lift;
  U128 root = 0, remainder = 0;
  for (int step = 0; step < 118; ++step) {
    const int position = 62 - 2 * step;
    const std::uint64_t pair = position >= 0 ? (radicand >> position) & 3 : 0;
    remainder = (remainder << 2) | pair;
    const U128 trial = (root << 2) | 1;
    root <<= 1;
    if (remainder >= trial) {
      remainder -= trial;
      root |= 1;
    }
  }
  return {false, root, (a.exponent - lift) / 2 - (118 - 32), remainder != 0};
}

}  // namespace narrow::detail
