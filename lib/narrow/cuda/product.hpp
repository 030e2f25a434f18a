// Whole products through cuBLASLt: what it chose, what it computed, and which plan reproduces it.
#pragma once

#include "narrow/cuda/check.hpp"
#include "narrow/dot/plan.hpp"
#include "narrow/golden/product_types.hpp"

namespace narrow {

// Runs the product on inputs by seed (product_inputs.hpp; A is m x k and B n x k, both with k contiguous) and looks for
// the plan. Throws Error when cuBLASLt has no algorithm for it.
ProductFinding find_product_plan(const ProductType& type, const ProductShape& shape, std::uint64_t seed);

// What cuBLASLt would choose, without running it.
ProductAlgorithm choose_algorithm(const ProductType& type, const ProductShape& shape, const ProductCall& call = {});

// The cuBLASLt that is loaded.
CublasVersion cublas_version();

// TMAC/s of a square product through cuBLASLt; median of many warm runs.
double product_rate(const ProductType& type, int size);

}  // namespace narrow
