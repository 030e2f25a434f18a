// Bit-exact matrix products on the device: what another generation's tensor core would have computed, on this card.
#pragma once

#include <cstdint>
#include <string>

#include "narrow/cuda/arrays.hpp"
#include "narrow/dot/plan.hpp"

namespace narrow {

// Codes on the device: element (line, k) at data[line * line_stride + k * k_stride]. A line is a row of A or a column
// of B. tf32 travels as 32-bit words, all others in the smallest element that holds them.
struct DeviceCodes {
  const void* data = nullptr;
  int code_bytes = 0;
  long long line_stride = 0, k_stride = 1;
  const std::uint8_t* scales = nullptr;  // block-scaled models: a code for each scale_block of k, line after line
};

// Why the device has no kernel for this; empty where it has one. Plans: chain, promote, split and slice joined in order.
std::string why_no_kernel(const DotModel& model, const Plan& plan, bool with_c);

// D = A B + C in codes of the model's accumulator, row-major; c may be null. Only puts work on the stream. Throws
// Error for a model or plan that has no kernel.
void gemm_on_device(const DotModel& model, const Plan& plan, int m, int n, int k, const DeviceCodes& a,
                    const DeviceCodes& b, const void* c, void* d, GpuStream stream);

}  // namespace narrow
