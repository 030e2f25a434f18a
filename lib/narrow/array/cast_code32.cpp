#include "narrow/array/cast_kernels.hpp"

namespace narrow::detail {
CastKernel<std::uint32_t> code32_kernel(const CastJob& job) { return choose_kernel<std::uint32_t>(job); }
}  // namespace narrow::detail
