// The power of two by which data should be multiplied so that a format loses the least of it.
#pragma once

#include "narrow/tensor/tensor_statistics.hpp"

namespace narrow {

// For each cast the scale 2^k with the fewest values lost, over all the tensors together. Lost are those that underflow
// to zero and those that overflow. Of scales that lose equally many the one closest to 1, and of 2^k and 2^-k the
// larger. Stochastic casts are counted as if they rounded to nearest; doubles are counted as the floats next to them.
std::vector<double> least_loss_scales(std::span<const Tensor> tensors, std::span<const FormatCast> casts,
                                      const TensorPass& pass = {});

}  // namespace narrow
