// What formats do to the numbers of a tensor, in one pass over its file and in bounded memory.
#pragma once

#include "narrow/array/statistics.hpp"
#include "narrow/tensor/chunks.hpp"

namespace narrow {

struct ScaledCast {
  FormatCast to;
  double scale = 1;  // the data is multiplied by it first; positive
};

struct TensorPass {
  std::uint64_t seed = 0;  // of stochastic casts: random_bits(seed, index of the value in C order)
  int threads = 0;         // 0: the default
  BytesDone done = {};
};

// As statistics(); formats in the order asked for, each with its own scale. Tensors that FP32 cannot hold are measured
// in double. The tensor must have a format. The `scale` of the result is that of the first cast.
Statistics tensor_statistics(const Tensor& tensor, std::span<const ScaledCast> casts, const TensorPass& pass = {});

}  // namespace narrow
