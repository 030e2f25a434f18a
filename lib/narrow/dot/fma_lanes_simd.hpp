// Four fused multiply-adds at once, each rounded once, on machines that have the instruction; else one by one.
#pragma once

#include <cmath>

#include "narrow/dot/fused_lanes.hpp"

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__FMA__)
#include <immintrin.h>
#endif

namespace narrow::detail {

inline FloatFour fma_four(FloatFour a, FloatFour b, FloatFour c) {
#if defined(__aarch64__)
  return std::bit_cast<FloatFour>(vfmaq_f32(std::bit_cast<float32x4_t>(c), std::bit_cast<float32x4_t>(a), std::bit_cast<float32x4_t>(b)));
#elif defined(__FMA__)
  return std::bit_cast<FloatFour>(_mm_fmadd_ps(std::bit_cast<__m128>(a), std::bit_cast<__m128>(b), std::bit_cast<__m128>(c)));
#else
  for (int lane = 0; lane < 4; ++lane) c[lane] = std::fma(a[lane], b[lane], c[lane]);
  return c;
#endif
}

}  // namespace narrow::detail
