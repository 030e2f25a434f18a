// narrow gpu plan: see gpu_plan.cpp.
#pragma once

#include "narrow/golden/product_types.hpp"
#include "products/gpu.hpp"

namespace app {

int run_gpu_plan(const GpuRequest& request, const narrow::ProductType& type, const narrow::ProductShape& shape,
                 std::uint64_t seed);

}  // namespace app
