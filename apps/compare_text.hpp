// What `narrow compare` found, as JSON and for people.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "json_value.hpp"
#include "narrow/tensor/compare_tensors.hpp"

namespace app {

struct ComparedTensor {
  std::string name;
  narrow::Tensor x, y;
  narrow::Comparison found;
  std::string missing_in;  // the file that has no tensor of this name
};

// Without a limit every bit must be equal.
bool is_good(const ComparedTensor& pair, std::optional<std::uint64_t> max_ulp);

Json compare_json(const ComparedTensor& pair, std::optional<std::uint64_t> max_ulp);
std::string compare_text(const std::vector<ComparedTensor>& pairs, std::optional<std::uint64_t> max_ulp, bool colour);

}  // namespace app
