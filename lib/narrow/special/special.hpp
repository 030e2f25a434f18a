// Functions exactly as an NVIDIA GPU computes them: those of its special-function unit (PTX: ex2.approx, rcp.approx,
// ..) and those of CUDA's library that are built on them. The same bits on every machine; a NaN is always 0x7FFFFFFF.
//
//   const float e = cuda_expf(1.0F), half = sfu_rcp(2.0F);  // 2.7182817, 0.5
//   std::vector<float> x = {0, 1, 2};
//   special_array(Special::sfu_ex2, x, x);  // 1, 2, 4
#pragma once

#include <cstdint>
#include <span>

namespace narrow {

// ftz: subnormal arguments and results are zeros of their sign, as in ex2.approx.ftz. sin, cos and tanh have no such
// form.
float sfu_ex2(float x, bool ftz = false);  // 2^x
float sfu_lg2(float x, bool ftz = false);
float sfu_rcp(float x, bool ftz = false);
float sfu_rsqrt(float x, bool ftz = false);
float sfu_sqrt(float x, bool ftz = false);
float sfu_sin(float x);  // Volta and later
float sfu_cos(float x);
float sfu_tanh(float x);  // Turing and later

// expf, logf, tanhf, erff of CUDA 13.0 without -use_fast_math.
float cuda_expf(float x);
float cuda_logf(float x);
float cuda_tanhf(float x);
float cuda_erff(float x);

// The same on arrays, out[i] = f(x[i]), in lanes and on threads (0: all). out is x, or apart from it. ftz as above;
// what has no such form ignores it. Throws Error where the sizes differ or the spans overlap otherwise.
enum class Special : std::uint8_t {
  sfu_ex2,
  sfu_lg2,
  sfu_rcp,
  sfu_rsqrt,
  sfu_sqrt,
  sfu_sin,
  sfu_cos,
  sfu_tanh,
  cuda_expf,
  cuda_logf,
  cuda_tanhf,
  cuda_erff
};
void special_array(Special f, std::span<const float> x, std::span<float> out, bool ftz = false, int threads = 0);

}  // namespace narrow
