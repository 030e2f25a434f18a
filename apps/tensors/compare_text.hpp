// What `narrow compare` found, as JSON and for people.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/json_value.hpp"
#include "narrow/tensor/compare_tensors.hpp"

namespace app {

struct ComparedTensor {
  std::string name;
  narrow::Tensor x, y;
  narrow::Comparison found;
  std::string missing_in;       // the file that has no tensor of this name, or none that can be read
  std::string unreadable = {};  // why not
};

// Without a limit every bit must be equal.
bool is_good(const ComparedTensor& pair, const narrow::CompareOptions& limits);

Json compare_json(const ComparedTensor& pair, const narrow::CompareOptions& limits);
std::string compare_text(const std::vector<ComparedTensor>& pairs, const narrow::CompareOptions& limits, bool colour);

}  // namespace app
