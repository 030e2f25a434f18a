#include "narrow/array/cast_kernels.hpp"

namespace narrow::detail {
CastKernel<float> value_kernel(const CastJob& job) { return choose_kernel<float>(job); }
}  // namespace narrow::detail
