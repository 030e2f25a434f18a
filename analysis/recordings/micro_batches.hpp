// Gradients of many micro-batches or ranks: recorded ones, those of a file, or made ones; and how wrong a mean of them
// is.
#pragma once

#include "analysis/recordings/inputs.hpp"

namespace analysis {

struct MicroBatches {
  Values rows;  // one micro-batch a row: one gradient of each weight
  std::uint64_t seed = 0;

  std::size_t width() const { return rows.cols; }
  // Contribution i of a sum: the rows in their order, beyond them drawn again at random.
  const float* row(std::size_t i) const;
  // In double: gradients of 24 bits within 2^20 of each other and at most 2^14 of them need 58 bits at the worst, and
  // 2^-52 is far below what is measured.
  std::vector<double> exact_mean(std::size_t n) const;
};

// given: a file of the user, "" for the recording. Sets out.data and adds notes. Throws Error for a file that has no
// two rows, no number but zero, or Inf or NaN.
MicroBatches load_micro_batches(const std::string& given, std::uint64_t seed, Outcome& out);

// Root mean square of the error over that of the exact mean: NaN, undefined, once a sum overflowed, and where the exact
// mean is zero. got: times `scale`.
double relative_error(const std::vector<double>& got, const std::vector<double>& exact, double scale = 1);
Cell percent_cell(double share);  // nothing where it is undefined
std::string wrong_text(double error, int digits = 3);

}  // namespace analysis
