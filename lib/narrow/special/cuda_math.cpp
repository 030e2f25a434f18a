// CUDA's expf, logf, tanhf and erff: the sequences that nvcc 13.0 makes of them, read from its PTX.
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "narrow/base/float_environment.hpp"
#include "narrow/special/interpolator.hpp"
#include "narrow/special/special.hpp"

namespace narrow {

namespace {

constexpr float bits(std::uint32_t word) { return std::bit_cast<float>(word); }
constexpr std::uint32_t word_of(float x) { return std::bit_cast<std::uint32_t>(x); }

// ((c0 x + c1) x + c2) x + .., each step rounded once.
float horner(float x, std::initializer_list<std::uint32_t> words) {
  float sum = bits(*words.begin());
  for (const std::uint32_t* c = words.begin() + 1; c != words.end(); ++c) sum = std::fma(sum, x, bits(*c));
  return sum;
}

}  // namespace

float cuda_expf(float x) {
  const DefaultFloats guard;
  if (std::isnan(x)) return detail::gpu_nan;
  // t = x log2(e) / 252 + 1/2 within [0, 1]; 2^n with n = floor(252 t) - 126 is the power that is split off.
  const float wide = std::fma(x, bits(0x3BBB989D), 0.5f), t = wide > 0 ? (wide < 1 ? wide : 1.0f) : 0.0f;
  const float n = static_cast<float>(std::floor(252 * static_cast<double>(t))) - 126;
  float r = std::fma(x, bits(0x3FB8AA3B), -n);
  r = std::fma(x, bits(0x32A57060), r);
  return sfu_ex2(r, true) * std::ldexp(1.0f, static_cast<int>(n));
}

float cuda_logf(float x) {
  const DefaultFloats guard;
  if (x == 0) return -bits(0x7F800000);
  if (std::isnan(x) || x < 0) return detail::gpu_nan;
  if (std::isinf(x)) return x;
  const bool is_small = x < 0x1p-126f;
  if (is_small) x *= 0x1p23f;
  const std::uint32_t i = (word_of(x) - 0x3F2AAAABu) & 0xFF800000u;
  const float f = bits(word_of(x) - i) - 1;
  const float e = std::fma(static_cast<float>(static_cast<std::int32_t>(i)), 0x1p-23f, is_small ? -23.0f : 0.0f);
  const float p = horner(f, {0xBE055027, 0x3E1039F6, 0xBDF8CDCC, 0x3E0F2955, 0xBE2AD8B9, 0x3E4CED0B, 0xBE7FFF22, 0x3EAAAA78,
                             0xBF000000});
  return std::fma(e, bits(0x3F317218), std::fma(p * f, f, f));
}

float cuda_tanhf(float x) {
  const DefaultFloats guard;
  if (std::isnan(x)) return detail::gpu_nan;
  const float a = std::fabs(x);
  if (a < bits(0x3F19999A)) {
    const float s = x * x, p = horner(s, {0x3C80F082, 0xBD563CAE, 0x3E085941, 0xBEAAA9ED});
    return std::fma(std::fma(p, s, 0.0f), x, x);  // not p * s: that would decide the sign of a zero otherwise
  }
  if (a >= bits(0x41102CB4)) return std::copysign(1.0f, x);
  const float e = sfu_ex2(a * bits(0x4038AA3B), true);
  return std::copysign(std::fma(sfu_rcp(e + 1, true), -2.0f, 1.0f), x);
}

float cuda_erff(float x) {
  const DefaultFloats guard;
  if (std::isnan(x)) return detail::gpu_nan;
  const float a = std::fabs(x);
  if (a < bits(0x3F8060FE)) {
    const float p = horner(x * x, {0x38B1E96A, 0xBA574D20, 0x3BAAD5EA, 0xBCDC1BE7, 0x3DE718AF, 0xBEC093AC, 0x3E0375D3});
    return std::fma(p, x, x);
  }
  const float p = horner(a, {0x38EB4C3A, 0xBAAE005B, 0x3C09919F, 0xBD24D99A, 0x3E235519, 0x3F69B4F9, 0x3F210A14});
  return std::copysign(1 - sfu_ex2(std::fma(p, -a, -a), true), x);
}

}  // namespace narrow
