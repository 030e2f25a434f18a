// narrow gpu check --share: see gpu_share.cpp.
#pragma once

#include "products/gpu.hpp"
#include "narrow/cuda/check.hpp"
#include "narrow/cuda/device.hpp"

namespace app {

int share_gpu(const GpuRequest& request, const narrow::GpuCheckOptions& options, const narrow::GpuDevice& device,
              const std::string& date, double seconds);

}  // namespace app
