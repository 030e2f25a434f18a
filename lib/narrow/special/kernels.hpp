// Special functions in lanes, as functions that each instruction set has for itself (simd/target.hpp). All give the
// bits of sfu.hpp and cuda_math.hpp; where an argument is not for lanes they stop in front of it, and the caller asks
// those.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace narrow::detail {

// Rows of coefficients in one word each: c0 in bits 0 to 31, c1 from 32 on, c2 from 52 on.
struct SpecialTables {
  const uint64_t *ex2, *lg2, *rcp, *rsqrt, *sqrt;
};

// How many of the first elements were done, in pairs of registers: up to a pair with an argument for the caller, or to
// what no longer fills one.
using SpecialKernel = size_t (*)(const SpecialTables& tables, const float* in, size_t count, float* out) noexcept;

struct SpecialKernels {
  SpecialKernel ex2, lg2, rcp, rsqrt, sqrt, exp, log, tanh, erf;
};

const SpecialKernels& special_kernels();
const SpecialTables& special_tables();

inline constexpr size_t special_block = 32;  // what the caller does before it asks the lanes again

}  // namespace narrow::detail
