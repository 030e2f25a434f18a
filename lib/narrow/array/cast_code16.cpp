#include "narrow/array/cast_kernels.hpp"

namespace narrow::detail {
CastKernel<std::uint16_t> code16_kernel(const CastJob& job) { return choose_kernel<std::uint16_t>(job); }
}  // namespace narrow::detail
