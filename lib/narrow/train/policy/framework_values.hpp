// What a framework's file gives, by key and each of its type: what the readers of the three frameworks work on.
#pragma once

#include <algorithm>
#include <map>

#include "narrow/train/policy/config_json.hpp"
#include "narrow/text/split.hpp"
#include "narrow/train/policy/framework_config.hpp"
#include "narrow/train/policy/framework_keys.hpp"

namespace narrow::train::detail {

inline bool is_listed(std::string_view list, std::string_view word) {
  for (const std::string_view w : words_of(list, " "))
    if (w == word || (w.ends_with('*') && word.starts_with(w.substr(0, w.size() - 1)))) return true;
  return false;
}

struct Values;
struct Framework {
  std::string_view name, title;
  std::span<const KeyRow> keys;
  void (*read)(Values& values, Recipe& recipe);

  const KeyRow* find(std::string_view section, std::string_view key) const {
    for (const KeyRow& row : keys)
      if (row.section == section && is_listed(row.keys, key)) return &row;
    return nullptr;
  }
  std::vector<std::string_view> known(std::string_view section) const {
    std::vector<std::string_view> all;
    for (const KeyRow& row : keys)
      for (const std::string_view word : words_of(row.section == section ? row.keys : "", " ")) all.push_back(word);
    return all;
  }
};

inline std::optional<Format> find_type(std::string_view word) {
  if (word.starts_with("torch.")) word.remove_prefix(6);
  for (const auto& [names, format] : {std::pair{std::string_view("fp32 float32 float"), "fp32"_fmt},
                                      {"fp16 float16 half", "fp16"_fmt},
                                      {"bf16 bfloat16", "bf16"_fmt}})
    if (is_listed(names, word)) return format;
  return std::nullopt;
}

// What a file gives, by path, each of its type.
struct Values {
  const Framework& framework;
  std::string where;
  std::map<std::string, Json, std::less<>> given = {};
  std::vector<std::string> silent = {}, uncomputed = {}, automatic = {};

  [[noreturn]] void fail(std::string_view path, const std::string& what) const {
    throw Error(where + ": " + (path.empty() ? "" : std::string(path) + ": ") + what);
  }
  template <class T = double>
  std::optional<T> get(std::string_view path) const {
    const auto it = given.find(path);
    return it == given.end() ? std::nullopt : std::optional(it->second.template get<T>());
  }
  // What is given of these and changes nothing beside the other settings.
  void ignore(const char* section, std::string_view keys) {
    for (const std::string_view key : words_of(keys, " "))
      if (const std::string path = section + std::string(key); given.contains(path)) silent.push_back(path);
  }
  bool truth(std::string_view path, bool otherwise = false) const { return get<bool>(path).value_or(otherwise); }
  Format format(std::string_view path, const Format& otherwise) const {
    const std::optional<std::string> word = get<std::string>(path);
    return word ? *find_type(*word) : otherwise;
  }
  std::size_t choice(std::string_view path, const char* otherwise, std::vector<std::string_view> accepted) const {
    return choose(where, path, get<std::string>(path).value_or(otherwise), accepted);
  }
};

// What the values mean, as a recipe.
void read_deepspeed(Values& values, Recipe& recipe);
void read_fsdp(Values& values, Recipe& recipe);
void read_megatron(Values& values, Recipe& recipe);
inline std::string in_words(double x) { return narrow::detail::scale_text(x); }

}  // namespace narrow::train::detail
