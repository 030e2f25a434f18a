// Some rows and columns of a product, copied out, so that a candidate can be tried on few outputs.
#pragma once

#include "narrow/dot/operand.hpp"
#include "narrow/dot/validate.hpp"

namespace narrow::detail {

struct Trial {
  const DotModel* model = nullptr;
  Plan plan = {};
  bool exact = false;        // on all outputs of the last sample
  std::uint64_t distance = 0;  // how far it was there: see distance_between
};

// 0 for equal codes, else the bits of the distance in ulp, and more than any where one is NaN.
std::uint64_t distance_between(Code x, Code y, const Format& f);

class ValidateSample {
 public:
  // Rows and columns spread evenly over D, at most as many as there are; others with another attempt.
  ValidateSample(const ValidateRequest& request, std::size_t rows, std::size_t cols, std::size_t attempt = 0);

  std::size_t outputs() const { return rows_.size() * cols_.size(); }
  void score(Trial& trial) const;
  // The outputs by a candidate, row by row, and D's own.
  std::vector<std::uint64_t> product(const DotModel& model, const Plan& plan) const;
  const std::vector<std::uint64_t>& found() const { return d_; }

 private:
  const ValidateRequest& request_;
  std::vector<std::size_t> rows_, cols_;
  std::vector<std::uint64_t> a_, b_, c_, d_;
  std::vector<float> scale_a_, scale_b_;
  std::vector<std::uint8_t> block_a_, block_b_;
};

}  // namespace narrow::detail
