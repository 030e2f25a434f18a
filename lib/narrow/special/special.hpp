// Functions exactly as an NVIDIA GPU computes them: those of its special-function unit (PTX: ex2.approx, rcp.approx,
// ..) and those of CUDA's library that are built on them. The same bits on every machine; a NaN is always 0x7FFFFFFF.
//
//   const float e = cuda_expf(1.0F), half = sfu_rcp(2.0F);  // 2.7182817, 0.5
#pragma once

namespace narrow {

// ftz: subnormal arguments and results are zeros of their sign, as in ex2.approx.ftz. sin and cos have no such form.
float sfu_ex2(float x, bool ftz = false);  // 2^x
float sfu_lg2(float x, bool ftz = false);
float sfu_rcp(float x, bool ftz = false);
float sfu_rsqrt(float x, bool ftz = false);
float sfu_sqrt(float x, bool ftz = false);
float sfu_sin(float x);  // Volta and later
float sfu_cos(float x);

// expf, logf, tanhf, erff of CUDA 13.0 without -use_fast_math.
float cuda_expf(float x);
float cuda_logf(float x);
float cuda_tanhf(float x);
float cuda_erff(float x);

}  // namespace narrow
