// Which GPU is there, and what went wrong when none is. Seen by programs: no CUDA header is needed to include it.
#pragma once

#include <cstddef>
#include <string>

namespace narrow {

struct GpuDevice {
  std::string name;
  std::string driver;   // as the driver names itself, or the highest CUDA version it serves
  std::string toolkit;  // what the program was built with
  int capability = 0;   // 90 for sm_90
  int processors = 0;
  std::size_t memory_bytes = 0;
};

// The first device, made current. Throws Error when there is none, or none that this build's code runs on.
GpuDevice open_device();

// What the program was built with ("13.0").
std::string toolkit_version();

}  // namespace narrow
