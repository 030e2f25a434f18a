// CUDA's expf, logf, tanhf and erff: the sequences that nvcc 13.0 makes of them, read from its PTX. Fma: a fused
// multiply-add, the host's or the device's.
#pragma once

#include "narrow/special/cuda_terms.hpp"
#include "narrow/special/sfu.hpp"

// What calls an Fma is no constant expression, so that a compiler for GPUs has to be told where it runs.
#ifdef __CUDACC__
#define NARROW_ON_BOTH __host__ __device__
#else
#define NARROW_ON_BOTH
#endif

namespace narrow::detail {

constexpr float float_of_word(std::uint32_t word) noexcept { return std::bit_cast<float>(word); }
constexpr float with_sign_of(float magnitude, float x) noexcept {
  return is_negative_float(x) ? -magnitude : magnitude;
}

// ((c0 x + c1) x + c2) x + .., each step rounded once.
template <std::uint32_t first, std::uint32_t... others, class Fma>
NARROW_ON_BOTH float horner(float x, Terms<first, others...>, const Fma& fma) {
  float sum = float_of_word(first);
  ((sum = fma(sum, x, float_of_word(others))), ...);
  return sum;
}

template <class Fma>
NARROW_ON_BOTH float cuda_expf(float x, const SfuTables& tables, const Fma& fma) {
  if (x != x) return gpu_nan;
  // t = x log2(e) / 252 + 1/2 within [0, 1]; 2^n with n = floor(252 t) - 126 is the power that is split off.
  const float wide = fma(x, float_of_word(0x3BBB989D), 0.5f), t = wide > 0 ? (wide < 1 ? wide : 1.0f) : 0.0f;
  const int n = static_cast<int>(252 * static_cast<double>(t)) - 126;
  float r = fma(x, float_of_word(0x3FB8AA3B), static_cast<float>(-n));
  r = fma(x, float_of_word(0x32A57060), r);
  return sfu_ex2(r, true, tables) * float_of(false, n + 127, 0);
}

template <class Fma>
NARROW_ON_BOTH float cuda_logf(float x, const Fma& fma) {
  if (x == 0) return signed_inf(true);
  if (x != x || x < 0) return gpu_nan;
  if (x == signed_inf(false)) return x;
  const bool is_small = x < 0x1p-126f;
  const float y = is_small ? x * 0x1p23f : x;
  const std::uint32_t word = std::bit_cast<std::uint32_t>(y), i = (word - 0x3F2AAAABu) & 0xFF800000u;
  const float f = float_of_word(word - i) - 1;
  const float e = fma(static_cast<float>(static_cast<std::int32_t>(i)), 0x1p-23f, is_small ? -23.0f : 0.0f);
  const float p = horner(f, LogTerms{}, fma);
  return fma(e, float_of_word(0x3F317218), fma(p * f, f, f));
}

template <class Fma>
NARROW_ON_BOTH float cuda_tanhf(float x, const SfuTables& tables, const Fma& fma) {
  if (x != x) return gpu_nan;
  const float a = x < 0 ? -x : x;
  if (a < float_of_word(0x3F19999A)) {
    const float s = x * x, p = horner(s, TanhTerms{}, fma);
    return fma(fma(p, s, 0.0f), x, x);  // not p * s: that would decide the sign of a zero otherwise
  }
  if (a >= float_of_word(0x41102CB4)) return with_sign_of(1, x);
  const float e = sfu_ex2(a * float_of_word(0x4038AA3B), true, tables);
  return with_sign_of(fma(sfu_rcp(e + 1, true, tables), -2.0f, 1.0f), x);
}

template <class Fma>
NARROW_ON_BOTH float cuda_erff(float x, const SfuTables& tables, const Fma& fma) {
  if (x != x) return gpu_nan;
  const float a = x < 0 ? -x : x;
  if (a < float_of_word(0x3F8060FE)) {
    const float p = horner(x * x, NearErfTerms{}, fma);
    return fma(p, x, x);
  }
  const float p = horner(a, FarErfTerms{}, fma);
  return with_sign_of(1 - sfu_ex2(fma(p, -a, -a), true, tables), x);
}

}  // namespace narrow::detail
