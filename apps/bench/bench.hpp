// One measured row of `narrow bench`, and how a kernel is measured beside a memcpy of the same bytes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace app {

// How long it takes, once.
inline double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct BenchRow {
  std::string kernel, format, mode, overflow;  // empty where it does not apply
  std::size_t elements = 0;
  int threads = 1;
  std::string data;
  double rate = 0;   // 10^9 elements a second
  double ratio = 0;  // time of the memcpy / time of the kernel
  std::string unit = "Gelement/s";
  std::string ratio_to = "memcpy of the same bytes on the same threads";
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
// Block formats: kernels mxfp8, nvfp4 and quantise.
std::vector<BenchKernel> scale_kernels(const BenchInput& input);

// Whole files through the tensor passes, beside `cat FILE > /dev/null`: rates in 10^9 bytes of input a second.
struct FileBench {
  std::string folder;       // for the files, which are removed afterwards
  std::uint64_t bytes = 0;  // of one file
  int repeat = 3;
  std::vector<std::string> kernels;  // of file_kernels
};
inline constexpr const char* file_kernels[] = {"stats file", "cast file", "compare files"};
std::vector<BenchRow> bench_files(const FileBench& request);

// Matrix products of tensor-core and software models (kernel "product"), rates in 10^9 multiply-adds a second.
std::vector<BenchRow> bench_products(int repeat, bool one_thread_only);
// Steps of `narrow train --task lm` (kernel "train"), rates in 10^9 multiply-adds a second.
std::vector<BenchRow> bench_training(int repeat, bool one_thread_only);

}  // namespace app
