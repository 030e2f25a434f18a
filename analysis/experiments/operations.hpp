// The operations of transformers and convolutional models with every result rounded to one format: what "computed in
// FP16" means, sums included.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "narrow/format/format.hpp"

namespace analysis {

// Rounds to nearest even into a format; without one it keeps everything (the reference in double).
struct Rounder {
  const narrow::Format* format = nullptr;
  double operator()(double x) const;
};

using Numbers = std::vector<double>;

// Elementwise and by rows of `cols`. Every elementary result (a sum, a product, exp, a root) is rounded once.
Numbers exp_of(std::span<const double> x, const Rounder& r);
Numbers log_of(std::span<const double> x, const Rounder& r);
Numbers gelu_of(std::span<const double> x, const Rounder& r);                            // x/2 (1 + erf(x / sqrt 2))
Numbers add_of(std::span<const double> x, std::span<const double> y, const Rounder& r);  // of equal sizes, else Error
Numbers sum_of(std::span<const double> x, std::size_t cols, const Rounder& r);           // one after the other
Numbers variance_of(std::span<const double> x, std::size_t cols, const Rounder& r);      // in two passes
Numbers softmax_of(std::span<const double> x, std::size_t cols, const Rounder& r);       // largest subtracted first
Numbers layer_norm_of(std::span<const double> x, std::size_t cols, const Rounder& r);
Numbers cross_entropy_of(std::span<const double> x, std::size_t cols,
                         const Rounder& r);  // of the largest logit's class
// Of equal sizes, else Error; by rows of `cols`.
Numbers dot_of(std::span<const double> x, std::span<const double> y, std::size_t cols, const Rounder& r);
Numbers mse_of(std::span<const double> x, std::span<const double> y, std::size_t cols, const Rounder& r);

// Every column over all rows, without gain and bias; the values come column by column.
Numbers batch_norm_of(std::span<const double> x, std::size_t cols, const Rounder& r);
// What batch norm remembers of each column: running <- 0.9 running + 0.1 batch in the format, from 0 (the mean) or 1
// (the variance, with n - 1). The statistics of a batch, 8 rows one after the other and around again, are exact.
enum class Statistic : std::uint8_t { mean, variance };
Numbers running_of(std::span<const double> x, std::size_t cols, Statistic statistic, std::size_t batches,
                   const Rounder& r);

// x (m x k) times the transpose of w (n x k). With a format: operands rounded to it (8-bit ones scaled by a power of
// two a tensor), multiplied as an H200's tensor core does (FP32: one FMA a product), the result rounded to the format
// (8 bit: to BF16). narrow_sums: the running sum is held in the format as well.
Numbers matmul_of(std::span<const double> x, std::span<const double> w, std::size_t k, const narrow::Format* format,
                  bool narrow_sums);

// The windows of 3 places a dimension of side^dimensions places (1 to 3 dimensions) with so many channels, as rows:
// what a convolution multiplies with its weights. x has at least that many values, else Error.
Numbers windows_of(std::span<const double> x, std::size_t dimensions, std::size_t side, std::size_t channels);

// Root mean square error over root mean square of the reference, and the share of results that are not finite, both of
// the results whose reference is finite. The error is undefined, NaN, once one of them is not, and where the reference
// is zero: what overflows would leave the error of the others as that of the whole.
struct OperationError {
  double relative = 0, not_finite = 0;
};
OperationError error_of(const Numbers& got, const Numbers& reference);

}  // namespace analysis
