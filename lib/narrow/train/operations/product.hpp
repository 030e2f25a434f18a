// A matrix product as a policy computes it: in the carrier, with every operation rounded, or as a tensor core does.
#pragma once

#include "narrow/train/operations/quantiser.hpp"

namespace narrow::train {

// C = (A B^T) * decode of A * decode of B for A: m x K, B: n x K, C: m x n. With a model the result is, bit for bit,
// that of narrow::gemm for the codes of the operands, output in FP32, and their scales.
template <class T>
void product(const ProductPolicy& policy, const Factor<T>& a, const Factor<T>& b, const Matrix<T>& c, int threads = 0);

}  // namespace narrow::train
