// Rates on the device: casts as a share of the copy bandwidth, products beside the vendor's table. Device events,
// medians.
#pragma once

#include <string>
#include <vector>

namespace narrow {

struct GpuRate {
  std::string name;
  double rate = 0;
  std::string unit;  // TB/s, TFLOP/s, TMAC/s
  double ratio = 0;  // 0: none
  std::string ratio_to;
};

std::vector<GpuRate> bench_arrays();    // copy, round, encode, decode, statistics, histogram
std::vector<GpuRate> bench_products();  // through cuBLASLt
std::vector<GpuRate> bench_models();    // bit-exact products on the device

}  // namespace narrow
