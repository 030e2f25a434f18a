#include "narrow/array/cast_lanes.hpp"

namespace narrow::detail::inline NARROW_LANES {
CastKernel<uint8_t> code8_kernel(const CastJob& job) { return choose_kernel<uint8_t>(job); }
}  // namespace narrow::detail::inline NARROW_LANES
