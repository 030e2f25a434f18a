// Block formats as `narrow bench` times them: floats to codes and scales, in memory of the caller.
#include <memory>

#include "bench/bench.hpp"
#include "narrow/array/pack.hpp"
#include "narrow/scale/quantise.hpp"

namespace app {
namespace {

// Shared by all kernels of one input.
struct BlockBuffers {
  std::vector<std::uint8_t> codes, packed;
  std::vector<float> scales;
};

// Rows of 4096: what a matrix of a model has, and whole blocks. 4 bytes in; codes (packed where they are short) and
// scales out.
constexpr std::size_t columns = 4096;

BenchKernel quantise_kernel(const char* kernel, const char* name, const BenchInput& input,
                            const std::shared_ptr<BlockBuffers>& b) {
  const narrow::BlockFormat f = narrow::require_block_format(name);
  const std::size_t n = input.values.size(), rows = n / columns;
  const std::size_t scales = narrow::grid_rows(f, rows) * narrow::grid_cols(f, columns);
  const int bits = f.element.width();
  BenchKernel k;
  k.row = {kernel, name, "nearest_even", "saturate", n, 1, input.name};
  k.bytes_per_element = 4 + f.bits_per_element() / 8;
  k.run = [=, in = std::span<const float>(input.values)](int threads) {
    const float amax = f.needs_tensor_amax() ? narrow::tensor_amax(in, f, threads) : 0;
    narrow::quantise_into(in, rows, columns, f, amax, b->codes, std::span(b->scales).first(scales), threads);
    if (bits < 8) narrow::pack_codes(b->codes, bits, std::span(b->packed).first(narrow::packed_size(n, bits)));
  };
  return k;
}

}  // namespace

std::vector<BenchKernel> scale_kernels(const BenchInput& input) {
  constexpr std::size_t smallest_block = 16;
  const std::size_t n = input.values.size();
  const auto b = std::make_shared<BlockBuffers>();
  b->codes.resize(n), b->packed.resize(n), b->scales.resize(n / smallest_block);
  std::vector<BenchKernel> kernels;
  for (const char* name : {"mxfp8_e4m3", "mxfp8_e5m2", "mxfp8_e4m3:cuda_round_up"})
    kernels.push_back(quantise_kernel("mxfp8", name, input, b));
  for (const char* name : {"nvfp4", "nvfp4:torchao_nvfp4"}) kernels.push_back(quantise_kernel("nvfp4", name, input, b));
  for (const char* name :
       {"mxfp4", "mxfp6_e2m3", "mxint8", "fp8_1x128", "fp8_128x128", "fp8_row_e4m3", "fp8_tensor_e4m3"})
    kernels.push_back(quantise_kernel("quantise", name, input, b));
  return kernels;
}

}  // namespace app
