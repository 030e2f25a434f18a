// The fused product on the device by model, for whoever has codes there. The kernels are in fused_gemm.cuh.
#pragma once

#include "narrow/dot/model.hpp"

struct CUstream_st;

namespace narrow::detail {

struct FusedGemm;
struct Tally;

// Whether the fast kernels know the model's rule and sizes.
bool has_fused_kernel(const DotModel& model);

// Fills the numbers of the model into the request: rules of the operands, bits, floor, order, parts.
void set_model(FusedGemm& g, const DotModel& model);

// tally: null to store results at g.d, else to count where they differ from what lies there.
void launch_fused(const FusedGemm& g, const DotModel& model, int tiles, Tally* tally, CUstream_st* stream);

// The same by the scalar functions, one thread an output, for every rule that has a scalar step on the device: the slow
// way that the fast one is held against, and the only one for doubles and integers.
bool has_scalar_kernel(const DotModel& model);
void launch_scalar(const FusedGemm& g, const DotModel& model, int tiles, Tally* tally, CUstream_st* stream);

}  // namespace narrow::detail
