// What models call their tensors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace app {

// Names that models give to what is better left alone.
bool is_kept_by_custom(std::string_view name);
// Projections that loaders join into one matrix: the names of its group in turn; of none, the name itself.
std::vector<std::string> fused_with(const std::string& tensor);
// Endings of scales, and what their codes may be called in turn.
struct ScaleEnding {
  std::string_view scale;
  std::vector<std::string_view> codes;
};
const std::vector<ScaleEnding>& scale_endings();
bool is_scale_name(std::string_view name);
// The name without ".weight".
std::string module_of(std::string_view tensor);
std::string_view last_word(std::string_view module);  // after the last dot
// The module with # for every number: layers of one kind have one.
std::string kind_of(std::string_view module);

}  // namespace app
