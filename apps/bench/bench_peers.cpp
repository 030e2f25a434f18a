// What users would otherwise call for the same work, as far as Debian packages and the compiler offer it.
#include <Eigen/Core>
#include <memory>
#include <span>

#include "bench/bench.hpp"

namespace app {
namespace {

// float -> Narrow -> float, as a user of Eigen writes it.
template <class Narrow>
BenchKernel eigen_cast(const char* format, const BenchInput& input, const std::shared_ptr<std::vector<float>>& out) {
  BenchKernel k;
  k.row = {"eigen cast", format, "nearest_even", "to_special", input.values.size(), 1, input.name};
  k.run = [in = std::span<const float>(input.values), out](int) {
    const auto n = static_cast<Eigen::Index>(in.size());
    Eigen::Map<Eigen::ArrayXf>(out->data(), n) =
        Eigen::Map<const Eigen::ArrayXf>(in.data(), n).cast<Narrow>().template cast<float>();
  };
  return k;
}

#if defined(__ARM_FP16_FORMAT_IEEE)
using CompilerHalf = __fp16;
#define NARROW_HAS_COMPILER_HALF 1
#elif defined(__FLT16_MAX__)
using CompilerHalf = _Float16;
#define NARROW_HAS_COMPILER_HALF 1
#endif

}  // namespace

std::vector<BenchKernel> peer_kernels(const BenchInput& input) {
  const auto out = std::make_shared<std::vector<float>>(input.values.size());
  std::vector<BenchKernel> kernels;
  kernels.push_back(eigen_cast<Eigen::half>("fp16", input, out));
  kernels.push_back(eigen_cast<Eigen::bfloat16>("bf16", input, out));
#ifdef NARROW_HAS_COMPILER_HALF
  BenchKernel k;
  k.row = {"compiler half", "fp16", "nearest_even", "to_special", input.values.size(), 1, input.name};
  k.run = [in = std::span<const float>(input.values), out](int) {
    for (std::size_t i = 0; i < in.size(); ++i) (*out)[i] = static_cast<float>(static_cast<CompilerHalf>(in[i]));
  };
  kernels.push_back(std::move(k));
#endif
  return kernels;
}

}  // namespace app
