// CUDA calls that can fail, and device memory that frees itself. A failure is an Error with one line.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "narrow/base/error.hpp"

// The architecture that is compiled for, as 80, 90, 120; on the host larger than all.
#ifdef __CUDA_ARCH__
#define NARROW_SM (__CUDA_ARCH__ / 10)
#else
#define NARROW_SM 1000
#endif

namespace narrow::detail {

// What an operation asks for; code for less is a trap that nobody launches (is_wanted, Instruction::runs_on).
template <class T>
inline constexpr int sm_of = 80;
template <class T>
  requires requires { T::minimum_sm; }
inline constexpr int sm_of<T> = T::minimum_sm;

inline void require_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // the next call starts clean
  throw Error(std::string("gpu: ") + what + ": " + cudaGetErrorString(status));
}

// After a kernel launch: what the launch itself had to say.
inline void require_launch(const char* what) { require_cuda(cudaGetLastError(), what); }

template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(std::size_t count) : count_(count) {
    const cudaError_t status = cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T));
    if (status == cudaSuccess) return;
    data_ = nullptr;
    (void)cudaGetLastError();
    throw Error("gpu: out of device memory: asked for " + std::to_string(count * sizeof(T) >> 20) + " MiB (" +
                cudaGetErrorString(status) + ")");
  }
  ~DeviceArray() {
    if (data_ != nullptr) cudaFree(data_);
  }
  DeviceArray(DeviceArray&& other) noexcept : data_(other.data_), count_(other.count_) { other.data_ = nullptr; }
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }

  T* get() const { return data_; }
  std::size_t size() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(T); }

  void clear() { require_cuda(cudaMemset(data_, 0, bytes()), "clearing memory"); }
  void upload(const T* from, std::size_t count) {
    require_cuda(cudaMemcpy(data_, from, count * sizeof(T), cudaMemcpyHostToDevice), "copying to the device");
  }
  void download(T* to, std::size_t count) const {
    require_cuda(cudaMemcpy(to, data_, count * sizeof(T), cudaMemcpyDeviceToHost), "copying from the device");
  }
  std::vector<T> download() const {
    std::vector<T> to(count_);
    download(to.data(), count_);
    return to;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

// Time between two points of a stream, by the device's clock.
class DeviceTimer {
 public:
  DeviceTimer() {
    require_cuda(cudaEventCreate(&start_), "creating an event");
    require_cuda(cudaEventCreate(&stop_), "creating an event");
  }
  ~DeviceTimer() {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
  }
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;

  void start(cudaStream_t stream = nullptr) { require_cuda(cudaEventRecord(start_, stream), "recording an event"); }
  double stop(cudaStream_t stream = nullptr) {  // seconds
    require_cuda(cudaEventRecord(stop_, stream), "recording an event");
    require_cuda(cudaEventSynchronize(stop_), "waiting for the device");
    float milliseconds = 0;
    require_cuda(cudaEventElapsedTime(&milliseconds, start_, stop_), "reading an event");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  cudaEvent_t start_{}, stop_{};
};

// Blocks of a grid that fills the device some times over, for loops that stride by the whole grid.
inline int grid_blocks(int threads) {
  int device = 0, processors = 0;
  require_cuda(cudaGetDevice(&device), "asking for the device");
  require_cuda(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "asking for the device");
  return processors * (2048 / threads) * 2;
}

}  // namespace narrow::detail
