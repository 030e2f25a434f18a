// narrow gpu check --share: see gpu_share.cpp.
#pragma once

#include "narrow/cuda/check.hpp"
#include "narrow/cuda/device.hpp"
#include "products/gpu.hpp"

namespace app {

int share_gpu(const GpuRequest& request, const narrow::GpuCheckOptions& options, const narrow::GpuDevice& device,
              const std::string& date, double seconds);

}  // namespace app
