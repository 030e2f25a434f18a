#include "narrow/array/cast_kernels.hpp"

namespace narrow::detail {
CastKernel<std::uint8_t> code8_kernel(const CastJob& job) { return choose_kernel<std::uint8_t>(job); }
}  // namespace narrow::detail
