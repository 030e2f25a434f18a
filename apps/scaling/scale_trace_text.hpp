// What `narrow scale-trace` prints and writes.
#pragma once

#include <string>
#include <vector>

#include "narrow/scale/trace.hpp"

namespace app::of_scale_trace {

struct Source {
  narrow::OverflowModel log;
  std::string text;  // what it is, for people
};

// One policy and what became of it. The recorded run, where there is one, comes first and has no policy.
struct Column {
  std::string name;
  narrow::Trace trace;
  narrow::TraceSummary summary;
  bool is_recipe = false;
  bool ends_unknown = false;  // the log cannot tell what became of the last step of the trace, and of all that follow
};

std::string to_text(const Source& source, const std::vector<Column>& columns, bool plot);
std::string to_json(const std::vector<Column>& columns, const narrow::OverflowModel& log);
std::string to_csv(const std::vector<Column>& columns, const std::vector<std::int64_t>& steps);

}  // namespace app::of_scale_trace
