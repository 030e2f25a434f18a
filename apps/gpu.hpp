// What `narrow gpu` was asked. The work is in gpu_run.cpp, which only builds with CUDA; gpu_none.cpp says so otherwise.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "narrow/cuda/plan_prediction.hpp"

namespace app {

struct GpuRequest {
  std::vector<std::string> words;  // check, record, bench, plan M N K
  std::optional<std::string> sections, only, dots, seed, scale, folder, type, learned;
  std::vector<narrow::RecordedProduct> recorded;  // plan: what to foretell from
  bool json = false, list = false, predict = false;
};

int run_gpu(const GpuRequest& request);

}  // namespace app
