// The recorded training runs of data/torch, step by step, for the lessons that look at them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lesson {

// One entry a step. NaN where the run gave Inf or NaN.
struct RecordedRun {
  double init_scale = 1;  // 1 where no scaler was used
  std::int64_t growth_interval = 0;
  std::vector<double> loss, scale;  // scale: before the step
  std::vector<double> grad_amax;    // largest unscaled gradient
  std::vector<bool> found_inf;
};

// "fp16", "bf16", "fp32", "fp16 without scaling", "fp16 interval 20", "fp16 from 2^30", "fp16 from 2^0",
// "fp16 from 2^-10". Throws narrow::Error when there is no such run.
RecordedRun recorded_run(std::string_view name);

}  // namespace lesson
