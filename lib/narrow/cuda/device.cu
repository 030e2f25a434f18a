#include <fstream>

#include "narrow/cuda/device.hpp"
#include "narrow/cuda/launch.cuh"

namespace narrow {

namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// The driver's own number where the system shows it, else the CUDA version that it serves.
std::string driver_text() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  while (file >> word)
    if (word.size() > 4 && word[0] >= '0' && word[0] <= '9' && word.find('.') != std::string::npos) return word;
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) return "none";
  return "CUDA " + version_text(version);
}

__global__ void touch(int* out) { *out = 1; }

}  // namespace

std::string toolkit_version() { return version_text(CUDART_VERSION); }

GpuDevice open_device() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    (void)cudaGetLastError();
    throw Error(std::string("gpu: no CUDA device on this machine (") +
                (status == cudaSuccess ? "none listed" : cudaGetErrorString(status)) +
                "); `narrow gpu` needs an NVIDIA GPU; data/golden holds recordings that are checked without one");
  }
  cudaDeviceProp properties{};
  detail::require_cuda(cudaGetDeviceProperties(&properties, 0), "reading the device's properties");
  GpuDevice device;
  device.name = properties.name;
  device.capability = properties.major * 10 + properties.minor;
  device.processors = properties.multiProcessorCount;
  device.memory_bytes = properties.totalGlobalMem;
  device.driver = driver_text();
  device.toolkit = toolkit_version();
  const std::string is = "gpu: " + device.name + " is sm_" + std::to_string(device.capability);
  if (device.capability < 80)
    throw Error(is +
                "; the checks need sm_80 or later; data/golden can still be replayed on the CPU (ctest -R golden)");
  detail::require_cuda(cudaSetDevice(0), "choosing the device");
  detail::DeviceArray<int> probe(1);
  touch<<<1, 1>>>(probe.get());
  const cudaError_t launched = cudaDeviceSynchronize();
  if (launched != cudaSuccess) {
    (void)cudaGetLastError();
    throw Error(is + ", and this build has no code for it (" + cudaGetErrorString(launched) +
                "); configure with -DCMAKE_CUDA_ARCHITECTURES=" + std::to_string(device.capability) +
                "; wgmma is checked on sm_90 only");
  }
  return device;
}

}  // namespace narrow
