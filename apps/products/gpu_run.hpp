// What the jobs of narrow gpu share; all of it is built with CUDA only.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "narrow/golden/product_types.hpp"
#include "products/gpu.hpp"

namespace app {

inline std::string format_text(const char* format, auto... values) {
  char text[512];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

inline std::string sizes_of(const narrow::ProductShape& s) {
  return std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
}

std::uint64_t gpu_seed(const GpuRequest& request);  // --seed; throws narrow::Error

// The plan of a product told before it runs, and then what it was.
int plan_gpu(const GpuRequest& request);

}  // namespace app
