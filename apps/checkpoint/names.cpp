#include "checkpoint/names.hpp"

#include <algorithm>

namespace app {

bool is_kept_by_custom(std::string_view name) {
  for (const char* word : {"embed", "norm", "lm_head", "eh_proj", "shared_head", "token_embd", "ffn_gate_inp", "wte",
                           "wpe", "ln_", "router", "rotary", "position", "conv", "sinks"})
    if (name.find(word) != std::string_view::npos) return true;
  return name == "output.weight" || (name.ends_with("gate.weight") && !name.ends_with("ffn_gate.weight"));
}

std::vector<std::string> fused_with(const std::string& tensor) {
  static const std::vector<std::vector<std::string_view>> groups = {
      {"q_proj", "k_proj", "v_proj"}, {"gate_proj", "up_proj"}, {"w1", "w3"}};
  const std::string module = module_of(tensor);
  const std::string_view word = last_word(module);
  for (const auto& group : groups)
    if (std::find(group.begin(), group.end(), word) != group.end()) {
      std::vector<std::string> names;
      for (const std::string_view other : group)
        names.push_back(module.substr(0, module.size() - word.size()) + std::string(other) +
                        tensor.substr(module.size()));
      return names;
    }
  return {tensor};
}

const std::vector<ScaleEnding>& scale_endings() {
  static const std::vector<ScaleEnding> all = {
      {"weight_scale_inv", {"weight"}}, {"weight_scale", {"weight", "weight_packed"}},
      {"weight_scale_2", {"weight"}},   {"weight_global_scale", {"weight_packed"}},
      {"_scales", {"_blocks"}},         {".SCB", {".weight"}},
      {"weight.absmax", {"weight"}}};
  return all;
}

bool is_scale_name(std::string_view name) {
  return std::any_of(scale_endings().begin(), scale_endings().end(),
                     [&](const ScaleEnding& pair) { return name.ends_with(pair.scale); }) ||
         name.ends_with("input_scale") || name.ends_with("quant_map");
}

std::string module_of(std::string_view tensor) {
  return std::string(tensor.ends_with(".weight") ? tensor.substr(0, tensor.size() - 7) : tensor);
}

std::string_view last_word(std::string_view module) {
  const std::size_t dot = module.rfind('.');
  return dot == std::string_view::npos ? module : module.substr(dot + 1);
}

std::string kind_of(std::string_view module) {
  std::string kind;
  for (const char c : module) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) kind += c;
    else if (!kind.ends_with('#')) kind += '#';
  }
  return kind;
}

}  // namespace app
