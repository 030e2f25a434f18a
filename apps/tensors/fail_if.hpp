// The gate of `narrow stats --fail-if`: conditions on metrics, joined by and, or.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensors/stats_rows.hpp"

namespace app {

//   expression  conjunction { or conjunction }
//   conjunction condition { and condition }
//   condition   [FORMAT .] METRIC (> >= < <= == !=) NUMBER [%]
// A count (underflow, nan, ...) with % is a share of all elements of the tensor. A condition without a format is asked
// of each format in turn; one with a format looks at that format of the same tensor. A condition on a metric that is
// undefined (null in the JSON) holds: the gate fails, and says why it is undefined.
class FailIf {
 public:
  // Throws narrow::Error that points at the position.
  FailIf(std::string_view text, const std::vector<std::string>& formats);

  // rows: one tensor in every format. Sets `breaks` of the rows that fail; true when one does.
  bool check(std::vector<StatsRow>& rows) const;

 private:
  struct Condition {
    const Metric* metric;
    std::string format;  // empty: the row's own
    std::string op;
    double number;
    bool share;
  };
  // What the row says, when the condition holds; empty when it does not.
  static std::string holds(const Condition& condition, const StatsRow& row);
  std::string fails(const std::vector<StatsRow>& rows, const StatsRow& row) const;

  std::vector<std::vector<Condition>> any_of_all_;
};

}  // namespace app
