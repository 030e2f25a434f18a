// The special-function unit: reductions of arguments, edges, and the interpolator between them. constexpr, so that
// kernels of a GPU run it beside the unit itself; the coefficients are a parameter because those of the host are not
// there.
#pragma once

#include <algorithm>

#include "narrow/special/interpolator.hpp"

namespace narrow::detail {

struct SfuTables {
  const Coefficients *ex2, *lg2, *rcp, *rsqrt, *sqrt, *sin;
  const Coefficients* tanh;
};

// An argument taken apart. A subnormal one is normalised, and its exponent is its own.
struct SfuArgument {
  bool negative, is_small, is_zero, is_inf, is_nan;
  int exponent = 0;
  std::uint32_t fraction = 0;

  constexpr SfuArgument(float x, bool ftz) noexcept
      : SfuArgument(std::bit_cast<std::uint32_t>(x) >> 31 != 0, std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu, ftz) {}

 private:
  constexpr SfuArgument(bool sign, std::uint32_t a, bool ftz) noexcept
      : negative(sign),
        is_small(a < 0x00800000u),
        is_zero(a == 0 || (ftz && is_small)),
        is_inf(a == 0x7F800000u),
        is_nan(a > 0x7F800000u) {
    exponent = static_cast<int>(a >> 23) - 127;
    if (is_small && !is_zero) {
      const int length = bit_length(std::uint64_t{a});
      exponent = length - 150, a <<= 24 - length;
    }
    fraction = a & 0x7FFFFFu;
  }
};

constexpr float signed_zero(bool negative) noexcept { return negative ? -0.0f : 0.0f; }
constexpr float signed_inf(bool negative) noexcept {
  return std::bit_cast<float>(negative ? 0xFF800000u : 0x7F800000u);
}
constexpr bool is_negative_float(float x) noexcept { return std::bit_cast<std::uint32_t>(x) >> 31 != 0; }
constexpr float flushed(float x, bool ftz) noexcept {
  return ftz && SfuArgument(x, false).is_small ? signed_zero(is_negative_float(x)) : x;
}

// A normal x times 2^n, rounded to nearest even where that is subnormal.
constexpr float times_power(float x, int n) noexcept {
  const auto word = std::bit_cast<std::uint32_t>(x);
  const bool negative = word >> 31 != 0;
  const int field = static_cast<int>(word >> 23 & 255) + n;
  if (field >= 255) return signed_inf(negative);
  if (field >= 1) return float_of(negative, field, word & 0x7FFFFFu);
  if (field < -24) return signed_zero(negative);
  const std::uint32_t significand = (word & 0x7FFFFFu) | 0x800000u;
  const int cut = 1 - field;
  const std::uint32_t kept = significand >> cut, rest = significand & ((1u << cut) - 1), half = 1u << (cut - 1);
  return float_of(negative, 0, kept + (rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0));
}

constexpr float sfu_ex2(float x, bool ftz, const SfuTables& tables) noexcept {
  constexpr Interpolator polynomial = ex2_interpolator;
  const SfuArgument p(x, ftz);
  if (p.is_nan) return gpu_nan;
  if (p.is_inf) return p.negative ? 0 : signed_inf(false);
  if (p.is_small) return 1;
  if (x >= 128) return signed_inf(false);
  if (x < -300) return 0;
  const bool halves = x < -126;  // and squares afterwards
  const float y = halves ? x * 0.5f : x;
  int n = static_cast<int>(y);
  const float rest = y - static_cast<float>(n);
  auto fraction = static_cast<std::uint32_t>((rest < 0 ? -rest : rest) * 0x1p23f);
  if (p.negative && fraction != 0) fraction = ~fraction & 0x7FFFFFu, n -= 1;
  const float power = n < -126 ? 0 : float_of(false, 127 + n, polynomial.fraction_of(polynomial(tables.ex2, fraction)));
  return halves ? flushed(power * power, ftz) : power;
}

constexpr float sfu_lg2(float x, bool ftz, const SfuTables& tables) noexcept {
  constexpr Interpolator polynomial = lg2_interpolator;
  const SfuArgument p(x, ftz);
  if (p.is_zero) return signed_inf(true);
  if (p.is_nan || p.negative) return gpu_nan;
  if (p.is_inf) return x;
  if (x == 1) return 0;
  const int exponent = p.exponent + (p.is_small ? 24 : 0);
  const std::int64_t total =
      static_cast<std::int64_t>(polynomial(tables.lg2, p.fraction)) + exponent * (std::int64_t{1} << polynomial.weight);
  std::uint64_t sum = static_cast<std::uint64_t>(total < 0 ? -total : total) & ~low_mask(20);
  const int shift = bit_length(sum) - 1 - polynomial.weight;
  sum = shift >= 0 ? sum >> shift : sum << -shift;
  const float result = float_of(exponent < 0, 127 + shift, polynomial.fraction_of(sum));
  return p.is_small ? result - 24 : result;
}

constexpr float sfu_rcp(float x, bool ftz, const SfuTables& tables) noexcept {
  constexpr Interpolator polynomial = rcp_interpolator;
  const SfuArgument p(x, ftz);
  if (p.is_nan) return gpu_nan;
  if (p.is_inf) return signed_zero(p.negative);
  if (p.is_zero) return signed_inf(p.negative);
  std::uint64_t sum = polynomial(tables.rcp, p.fraction);
  const bool is_one = sum >> polynomial.weight != 0;
  if (!is_one) sum <<= 1;
  return flushed(times_power(float_of(p.negative, is_one ? 127 : 126, polynomial.fraction_of(sum)), -p.exponent), ftz);
}

constexpr float sfu_sqrt(float x, bool ftz, const SfuTables& tables) noexcept {
  constexpr Interpolator polynomial = sqrt_interpolator;
  const SfuArgument p(x, ftz);
  if (p.is_nan) return gpu_nan;
  if (p.is_zero) return signed_zero(p.negative);
  if (p.negative) return gpu_nan;
  if (p.is_inf) return x;
  const int odd = p.exponent & 1;
  const float result = float_of(false, 127, polynomial.fraction_of(polynomial(tables.sqrt, p.fraction, 64 * odd)));
  return times_power(result, (p.exponent - odd) / 2);
}

constexpr float sfu_rsqrt(float x, bool ftz, const SfuTables& tables) noexcept {
  constexpr Interpolator polynomial = rsqrt_interpolator;
  const SfuArgument p(x, ftz);
  if (p.is_nan) return gpu_nan;
  if (p.is_zero) return signed_inf(p.negative);
  if (p.negative) return gpu_nan;
  if (p.is_inf) return 0;
  const int odd = p.exponent & 1, half = (p.exponent - odd) / 2;
  if (odd == 0 && p.fraction == 0) return times_power(1, -half);
  const std::uint64_t sum = polynomial(tables.rsqrt, p.fraction, 64 * odd) << 1;
  return times_power(float_of(false, 126, polynomial.fraction_of(sum)), -half);
}

// floor(log2) of a double above zero.
constexpr int exponent_of(double x) noexcept {
  return static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52 & 0x7FF) - 1023;
}

// Sign, quadrant and 23 bits of the fraction of a quadrant, as a word.
constexpr std::uint32_t reduce_angle(float x) noexcept {
  constexpr double per_quadrant = 0x1.45f306p-1, quadrant = 0x1.921fb6546df20p0, end = 0x1.921fb6p0;
  const std::uint32_t sign = is_negative_float(x) ? 0x80000000u : 0;
  const double a = static_cast<double>(x < 0 ? -x : x);
  if (SfuArgument(x, false).is_small || a >= 0x1p33) return sign;
  const double turned = a * per_quadrant;
  const auto k = static_cast<std::uint64_t>(turned);
  const double left = a - static_cast<double>(k) * quadrant;
  const double rest = (left < 0 ? 0 : left > end ? end : left) * per_quadrant;
  std::uint32_t bits = 0;
  if (rest > 0) {
    bits = static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(rest) >> 29 & low_mask(23)) | 1u << 23;
    bits >>= std::min(-exponent_of(rest), 24);
  }
  const std::uint32_t word = sign | static_cast<std::uint32_t>(k & 3) << 23 | bits;
  // The larger the argument, the fewer bits of the fraction are known.
  const int of_argument = std::max(exponent_of(a) - 8, 0), of_turns = std::clamp(exponent_of(turned), 0, 25);
  return word & ~static_cast<std::uint32_t>(low_mask(std::max(of_argument, of_turns)));
}

constexpr float sine_of(std::uint32_t word, bool negative, const SfuTables& tables) noexcept {
  constexpr Interpolator polynomial = sin_interpolator;
  std::uint64_t sum = polynomial(tables.sin, word & 0x7FFFFFu);
  if (sum == 0) return signed_zero(negative);
  const int shift = polynomial.weight + 1 - bit_length(sum);
  sum <<= shift;
  return float_of(negative, 127 - shift, polynomial.fraction_of(sum));
}

constexpr float sfu_sin(float x, const SfuTables& tables) noexcept {
  if (SfuArgument(x, false).is_nan || SfuArgument(x, false).is_inf) return gpu_nan;
  const std::uint32_t word = reduce_angle(x);
  const bool turned = (word >> 24 & 1) != 0;  // quadrants 2 and 3
  return sine_of((word >> 23 & 1) != 0 ? ~word : word, (word >> 31 != 0) != turned, tables);
}

constexpr float sfu_cos(float x, const SfuTables& tables) noexcept {
  if (SfuArgument(x, false).is_nan || SfuArgument(x, false).is_inf) return gpu_nan;
  const std::uint32_t word = reduce_angle(x), quadrant = word >> 23 & 3;
  return sine_of((quadrant & 1) == 0 ? ~word : word, ((quadrant + 1) & 2) != 0, tables);
}

// Turing and later. The form was found by measuring: it gives every result recorded on an H200. From 2^-8 on the upper
// bits of the fraction choose a row of the binade, the next 17 are xl, and those below do not matter. One of the sum is
// the argument's power of two, 1/2 at most.
constexpr float sfu_tanh(float x, const SfuTables& tables) noexcept {
  constexpr int first = -8, end = 3;  // binades with rows
  constexpr std::uint8_t index_bits[end - first] = {0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3};
  constexpr std::uint8_t first_row[end - first] = {0, 1, 2, 3, 5, 7, 11, 15, 19, 27, 43};
  constexpr Interpolator polynomial{6, 33, 18, 56, true, false, 0};
  const SfuArgument p(x, false);
  if (p.is_nan) return gpu_nan;
  if (p.exponent < first) return x;
  if (p.exponent >= end) return p.negative ? -1.0f : 1.0f;
  const int binade = p.exponent - first;
  const std::uint32_t fraction = p.fraction >> (6 - index_bits[binade]);
  std::uint64_t sum = polynomial(tables.tanh, (static_cast<std::uint32_t>(first_row[binade]) << 17) + fraction);
  const bool is_one = sum >> polynomial.weight != 0;
  if (!is_one) sum <<= 1;
  return float_of(p.negative, std::min(p.exponent, -1) + (is_one ? 127 : 126), polynomial.fraction_of(sum));
}

}  // namespace narrow::detail
