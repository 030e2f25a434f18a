// Vectors on the device, for tests; zeroed when made.
#pragma once

#include <cuda_runtime_api.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

namespace test {

template <class T>
class OnDevice {
 public:
  explicit OnDevice(std::size_t count) : count_(count) {
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)) == cudaSuccess);
    REQUIRE(cudaMemset(data_, 0, count * sizeof(T)) == cudaSuccess);
  }
  explicit OnDevice(const std::vector<T>& host) : OnDevice(host.size()) {
    REQUIRE(cudaMemcpy(data_, host.data(), count_ * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess);
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  T* data() const { return data_; }
  std::vector<T> host() const {
    std::vector<T> to(count_);
    REQUIRE(cudaMemcpy(to.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess);
    return to;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace test
