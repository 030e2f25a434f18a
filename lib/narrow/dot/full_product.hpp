// All of D against one model and plan, in blocks of rows so that memory stays small.
#pragma once

#include "narrow/dot/under_plans.hpp"
#include "narrow/dot/validate.hpp"

namespace narrow::detail {

struct OutputDifference {
  std::size_t item, row, col;
  Code expected, found;
};

struct FullComparison {
  std::uint64_t equal = 0, wrong = 0, max_ulp = 0, nan_mismatch = 0;
  std::array<std::uint64_t, 33> ulp_counts{};
  std::vector<OutputDifference> differences;  // the first ones
  std::vector<Code> expected;                 // of all outputs of one item, where asked for and few enough
};

struct ComparisonOptions {
  Finish finish = Finish::as_asked;
  std::size_t differences = 0;     // at most so many are kept
  bool stop_when_wrong = false;    // one difference settles it
  bool keep_expected = false;
  std::size_t rows = 0;            // of the first item, about so many; 0: all of everything
};

FullComparison compare_all(const ValidateRequest& request, const DotModel& model, const Plan& plan,
                           const ComparisonOptions& options, const std::function<void(double)>& progress = {});

}  // namespace narrow::detail
