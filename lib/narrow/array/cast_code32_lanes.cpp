#include "narrow/array/cast_lanes.hpp"

namespace narrow::detail::inline NARROW_LANES {
CastKernel<uint32_t> code32_kernel(const CastJob& job) { return choose_kernel<uint32_t>(job); }
}  // namespace narrow::detail::inline NARROW_LANES
