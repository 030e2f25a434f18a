// Two opinions on every index of a range, on the device: how many differ, which is the first, and a hash of the
// answers.
#pragma once

#include <cstdio>

#include "narrow/base/random.hpp"
#include "narrow/cuda/check.hpp"
#include "narrow/cuda/launch.cuh"

namespace narrow::detail {

struct Tally {
  unsigned long long mismatches, hash, first;
};

struct TwoAnswers {
  unsigned long long native, emulated;
};

__device__ inline void add_to(unsigned long long* total, unsigned long long value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(~0u, value, step);
  if ((threadIdx.x & 31) == 0 && value != 0) atomicAdd(total, value);
}

// Operation has native(index) and emulated(index). Every thread runs the same number of rounds, so that warps stay
// whole.
template <class Operation>
__global__ void __launch_bounds__(256) compare_range(Operation operation, unsigned long long count, Tally* tally) {
  const unsigned long long stride = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  unsigned long long mismatches = 0, hash = 0, first = ~0ull;
  for (unsigned long long i = blockIdx.x * static_cast<unsigned long long>(blockDim.x) + threadIdx.x; i < count;
       i += stride) {
    unsigned long long native = 0, emulated = 0;
    if constexpr (NARROW_SM >= sm_of<Operation>) native = operation.native(i), emulated = operation.emulated(i);
    else __trap();
    hash += mix_bits(native << 32 | i);
    if (native != emulated) {
      ++mismatches;
      if (i < first) first = i;
    }
  }
  __syncwarp();
  add_to(&tally->mismatches, mismatches);
  add_to(&tally->hash, hash);
  if (first != ~0ull) atomicMin(&tally->first, first);
}

template <class Operation>
__global__ void answer_one(Operation operation, unsigned long long index, TwoAnswers* out) {
  if constexpr (NARROW_SM >= sm_of<Operation>) *out = {operation.native(index), operation.emulated(index)};
  else __trap();
}

inline std::string hex_text(unsigned long long value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llX", value);
  return text;
}

// describe(index) names the operands of an index.
template <class Operation, class Describe>
GpuCheckResult compare(const std::string& name, const char* unit, const Operation& operation, std::uint64_t count,
                       const Describe& describe) {
  DeviceArray<Tally> tally(1);
  const Tally zero{0, 0, ~0ull};
  tally.upload(&zero, 1);
  DeviceTimer timer;
  timer.start();
  compare_range<<<grid_blocks(256), 256>>>(operation, count, tally.get());
  require_launch(name.c_str());
  GpuCheckResult result{name, unit, count, 0, timer.stop(), 0, {}};
  Tally seen;
  tally.download(&seen, 1);
  result.mismatches = seen.mismatches;
  result.hash = seen.hash;
  if (seen.mismatches != 0) {
    DeviceArray<TwoAnswers> answers(1);
    answer_one<<<1, 1>>>(operation, seen.first, answers.get());
    require_launch(name.c_str());
    TwoAnswers two;
    answers.download(&two, 1);
    result.first = describe(seen.first) + ": native " + hex_text(two.native) + ", emulated " + hex_text(two.emulated);
  }
  return result;
}

}  // namespace narrow::detail
