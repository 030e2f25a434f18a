// exp, log, tanh and erf with the same bits on every machine: IEEE operations in a fixed order, no libm, for a carrier
// or its lanes. Errors, checked against MPFR: exp and log at most 1 ulp, erf 1.5, tanh 3. (NaN is NaN, with any bits.)
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

#include "narrow/simd/carrier_lanes.hpp"

namespace narrow::train {

namespace detail {

template <class T>
struct MathConstants;

// ln2_high has so few bits that k * ln2_high is exact for every exponent k; high + low = ln 2 to twice the precision.
template <>
struct MathConstants<float> {
  static constexpr int mantissa_bits = 23, bias = 127;
  static constexpr float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
  static constexpr float lowest_exp = -104, highest_exp = 89;  // beyond: 0 and Inf
  static constexpr int exp_terms = 7, log_terms = 5;           // the first term left out is below 2^-26
  static constexpr float saturated_tanh = 10, saturated_erf = 4.5f;
  // erf(x) = x + x p(x^2) for |x| <= 1: Chebyshev fit of degree 7.
  static constexpr std::array<float, 8> erf_near = {0x1.06eba8p-3f,  -0x1.812746p-2f, 0x1.ce2f0ap-4f,
                                                    -0x1.b829d0p-6f, 0x1.562abep-8f,  -0x1.bcd3a4p-11f,
                                                    0x1.d89ff4p-14f, -0x1.449784p-17f};
  // (1 + 2 x) e^(x^2) erfc(x) = p(t), t = (x - 2.5) / (x + 2.5), for 1 <= x <= 4.5: Chebyshev fit of degree 8.
  static constexpr std::array<float, 9> erfc_far = {0x1.43cc70p+0f,  -0x1.f52c5ep-4f, -0x1.959aaep-4f,
                                                    0x1.42d36ap-3f,  -0x1.a5c504p-4f, 0x1.0c60ecp-5f,
                                                    0x1.0728f6p-10f, -0x1.1b0c3ap-8f, 0x1.2b86ccp-14f};
};
template <>
struct MathConstants<double> {
  static constexpr int mantissa_bits = 52, bias = 1023;
  static constexpr double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
  static constexpr double lowest_exp = -746, highest_exp = 710;
  static constexpr int exp_terms = 14, log_terms = 12;  // the first term left out is below 2^-56
  static constexpr double saturated_tanh = 20, saturated_erf = 6.25;
  // Degree 13.
  static constexpr std::array<double, 14> erf_near = {
      0x1.06eba8214db68p-3,  -0x1.812746b0379e7p-2,  0x1.ce2f21a042bdep-4,  -0x1.b82ce312889bep-6,
      0x1.565bcd0e650e1p-8,  -0x1.c02db3feedba8p-11, 0x1.f9a326c2864b4p-14, -0x1.f4d2562282ff2p-17,
      0x1.b9e65114fcc87p-20, -0x1.5f6d978de772fp-23, 0x1.fc43a356a068dp-27, -0x1.4e61eb4124ecbp-30,
      0x1.7f0f204500b63p-34, -0x1.29cd9cfb6be5fp-38};
  // For 1 <= x <= 6.25, degree 17.
  static constexpr std::array<double, 18> erfc_far = {
      0x1.43cc6f6c9672cp+0,   -0x1.f52c5d7e22302p-4, -0x1.959ac16f85752p-4,  0x1.42d379989b5c8p-3,
      -0x1.a5c0c8a401eddp-4,  0x1.0c6092a5a3c6fp-5,  0x1.e8948927b114ep-11,  -0x1.1f2f1326b3087p-8,
      0x1.01e122c125224p-11,  0x1.4b6a4a150e07ep-11, -0x1.731ebd5ba7863p-14, -0x1.dc25843326b8bp-14,
      0x1.a624843c4f4dfp-18,  0x1.7cd3bab414ecdp-16, 0x1.4c75388bfdfa8p-19,  -0x1.1b172018be2a1p-18,
      -0x1.3f73c64eac0cap-20, 0x1.208abbff2964dp-21};
};

template <class V>
using Constants = MathConstants<typename LaneTypes<V>::Element>;

// c[0] + x (c[1] + x (c[2] + ...)).
template <class V, class T, std::size_t N>
constexpr V polynomial(const std::array<T, N>& c, V x) noexcept {
  V sum = c[N - 1] + V{};
  for (std::size_t i = N - 1; i > 0; --i) sum = sum * x + c[i - 1];
  return sum;
}

// 1/2, 1/3!, 1/4!, ...
template <class T>
inline constexpr auto exp_coefficients = [] {
  std::array<T, MathConstants<T>::exp_terms - 1> c{};
  double factorial = 1;  // exact up to 18!
  for (std::size_t n = 0; n < c.size(); ++n) c[n] = static_cast<T>(1 / (factorial *= static_cast<double>(n + 2)));
  return c;
}();
// 1/3, 1/5, 1/7, ...
template <class T>
inline constexpr auto log_coefficients = [] {
  std::array<T, MathConstants<T>::log_terms - 1> c{};
  for (std::size_t n = 0; n < c.size(); ++n) c[n] = static_cast<T>(1.0 / static_cast<double>(2 * n + 3));
  return c;
}();

template <class V>
constexpr V power_of_two(typename LaneTypes<V>::Word k) noexcept {
  using C = Constants<V>;
  using One = typename LaneTypes<typename LaneTypes<V>::Element>::Word;
  return std::bit_cast<V>((k + static_cast<One>(C::bias)) << C::mantissa_bits);
}

// x = k ln 2 + r with |r| <= ln2 / 2, and e^r - 1 by its series. k comes out of the low bits of x / ln 2 + 1.5 * 2^23:
// the addition rounds to the nearest integer.
template <class V>
struct ReducedExp {
  typename LaneTypes<V>::Word k;
  V minus_one;
};
template <class V>
constexpr ReducedExp<V> reduced_exp(V x) noexcept {
  using C = Constants<V>;
  using T = typename LaneTypes<V>::Element;
  using One = typename LaneTypes<T>::Word;
  constexpr T anchor = static_cast<T>(3ull << (C::mantissa_bits - 1)), log2_e = static_cast<T>(0x1.71547652b82fep+0);
  const V shifted = x * log2_e + anchor, k = shifted - anchor;
  const V r = (x - k * C::ln2_high) - k * C::ln2_low;
  return {std::bit_cast<typename LaneTypes<V>::Word>(shifted) - std::bit_cast<One>(anchor),
          r + r * r * polynomial(exp_coefficients<T>, r)};
}

}  // namespace detail

// 2^k (1 + (e^r - 1)), the power in two factors so that subnormal results are rounded once and the last ones overflow.
template <class V>
constexpr V exp(V x) noexcept {
  using C = detail::Constants<V>;
  using T = typename LaneTypes<V>::Element;
  using Word = typename LaneTypes<V>::Word;
  const V lowest = C::lowest_exp + V{}, highest = C::highest_exp + V{};
  const V above = x < lowest ? lowest : x;
  const V clamped = above > highest ? highest : above;  // NaN stays NaN
  const auto [k, minus_one] = detail::reduced_exp(clamped);
  const Word half = std::bit_cast<Word>(std::bit_cast<typename LaneTypes<V>::Int>(k) >> 1);
  return (minus_one + T{1}) * detail::power_of_two<V>(half) * detail::power_of_two<V>(k - half);
}

// x = 2^k m with sqrt(1/2) <= m < sqrt(2);  log m = 2 atanh(s) = 2 s (1 + s^2/3 + s^4/5 + ...),  s = (m - 1) / (m + 1).
// One value at a time: nobody needs many.
template <class T>
constexpr T log(T x) noexcept {
  using C = detail::Constants<T>;
  using Word = typename LaneTypes<T>::Word;
  constexpr T smallest_normal = std::numeric_limits<T>::min(), infinity = std::numeric_limits<T>::infinity();
  constexpr T lift = detail::power_of_two<T>(C::mantissa_bits + 2);
  constexpr Word root = std::bit_cast<Word>(static_cast<T>(0x1.6a09e667f3bcdp-1)),
                 one_bit = Word{1} << C::mantissa_bits;
  if (!(x > 0)) return x == 0 ? -infinity : std::numeric_limits<T>::quiet_NaN();
  if (x == infinity) return x;
  const bool is_low = x < smallest_normal;
  const Word word = std::bit_cast<Word>(is_low ? x * lift : x) - root;
  const T k = static_cast<T>(static_cast<typename LaneTypes<T>::Int>(word) >> C::mantissa_bits) -
              static_cast<T>(is_low ? C::mantissa_bits + 2 : 0);
  const T m = std::bit_cast<T>((word & (one_bit - 1)) + root);
  const T f = m - 1, s = f / (m + 1), s2 = s * s;
  // 2 s = f - s f, so that f, which is exact, carries the leading bits.
  const T tail = s * (2 * s2 * detail::polynomial(detail::log_coefficients<T>, s2) - f);
  return k * C::ln2_high + (f + (tail + k * C::ln2_low));
}

// e / (e + 2) with e = e^(2 |x|) - 1 = (2^k - 1) + 2^k (e^r - 1), which does not cancel for k >= 0.
template <class V>
constexpr V tanh(V x) noexcept {
  using C = detail::Constants<V>;
  using T = typename LaneTypes<V>::Element;
  const V size = x < T{0} ? -x : x, limit = C::saturated_tanh + V{};
  const V y = size > limit ? limit : size;
  const auto [k, minus_one] = detail::reduced_exp(y + y);
  const V power = detail::power_of_two<V>(k), e = (power - T{1}) + power * minus_one;
  const V result = e / (e + T{2}), signed_result = x < T{0} ? -result : result;
  return x == T{0} ? x : signed_result;
}

// erf(x), and e^(-x^2) on the way.
template <class V>
struct Gauss {
  V erf, bell;
};
template <class V>
constexpr Gauss<V> gauss(V x) noexcept {
  using C = detail::Constants<V>;
  using T = typename LaneTypes<V>::Element;
  const V size = x < T{0} ? -x : x, limit = C::saturated_erf + V{};
  const V y = size > limit ? limit : size;
  const V near = y + y * detail::polynomial(C::erf_near, y * y);
  const V t = (y - static_cast<T>(2.5)) / (y + static_cast<T>(2.5));
  const V bell = train::exp(-(size * size));
  const V far = T{1} - bell * detail::polynomial(C::erfc_far, t) / (y + y + T{1});
  const V result = y < T{1} ? near : far, signed_result = x < T{0} ? -result : result;
  return {x == T{0} ? x : signed_result, bell};
}
template <class V>
constexpr V erf(V x) noexcept {
  return gauss(x).erf;
}

}  // namespace narrow::train
