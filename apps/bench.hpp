// One measured row of `narrow bench`, and how a kernel is measured beside a memcpy of the same bytes.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace app {

struct BenchRow {
  std::string kernel, format, mode, overflow;  // empty where it does not apply
  std::size_t elements = 0;
  int threads = 1;
  std::string data;
  double rate = 0;  // 10^9 elements a second
  double ratio = 0;  // time of the memcpy / time of the kernel
};

// Something to time: a name, the bytes that one element moves (read plus written), and the work.
struct BenchKernel {
  BenchRow row;
  double bytes_per_element = 8;
  std::function<void(int threads)> run;
};

struct BenchInput {
  std::string name;  // spread or normal
  std::vector<float> values;
};

// Every kernel of the library over this input. The buffers live as long as the kernels.
std::vector<BenchKernel> library_kernels(const BenchInput& input);
// What users would otherwise call: Eigen's casts, and the compiler's own half type where there is one.
std::vector<BenchKernel> peer_kernels(const BenchInput& input);

}  // namespace app
