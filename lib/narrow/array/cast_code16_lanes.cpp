#include "narrow/array/cast_lanes.hpp"

namespace narrow::detail::inline NARROW_LANES {
CastKernel<uint16_t> code16_kernel(const CastJob& job) { return choose_kernel<uint16_t>(job); }
}  // namespace narrow::detail::inline NARROW_LANES
