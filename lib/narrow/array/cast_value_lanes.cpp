#include "narrow/array/cast_lanes.hpp"

namespace narrow::detail::inline NARROW_LANES {
CastKernel<float> value_kernel(const CastJob& job) { return choose_kernel<float>(job); }
}  // namespace narrow::detail::inline NARROW_LANES
