// The plain matrix product in the carrier: C = A B, every element
//   c = (((a_0 b_0) + a_1 b_1) + a_2 b_2) + ...      each product and each sum rounded, k ascending,
// in this order for every size, blocking, vector width, machine and number of threads.
#pragma once

#include "narrow/train/operations/matrix.hpp"

namespace narrow::train {

// A: m x k, B: k x n, C: m x n. K = 0 gives zeros.
void multiply(const Matrix<const float>& a, const Matrix<const float>& b, const Matrix<float>& c, int threads = 0);
void multiply(const Matrix<const double>& a, const Matrix<const double>& b, const Matrix<double>& c, int threads = 0);

}  // namespace narrow::train
