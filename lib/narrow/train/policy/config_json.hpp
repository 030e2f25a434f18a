// The JSON of recipes, checkpoints and other frameworks' configuration files: a value that knows its place.
#pragma once

#include <string>
#include <vector>

#include "narrow/base/error.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/strict_json.hpp"
#include "narrow/train/policy/recipe_words.hpp"

namespace narrow::train {

using Json = nlohmann::ordered_json;

inline Json parse_config_json(std::string_view json, const std::string& where) {
  return parse_strict_json<Json>(json, where, "; narrow train --print-recipe shows one");
}

// A value and where it stands: "'my.json': operations.linear.weights".
struct Node {
  const Json& value;
  std::string where;
  bool is_root = false;

  [[noreturn]] void fail(const std::string& what) const { throw Error(where + ": " + what); }
  std::string text() const {
    if (!value.is_string()) fail("must be a text in quotes");
    return value.get<std::string>();
  }
  bool truth() const {
    if (!value.is_boolean()) fail("must be true or false");
    return value.get<bool>();
  }
  std::int64_t count(std::int64_t least, std::int64_t most) const {
    if (!value.is_number_integer() || value < least || value > most)
      fail("must be an integer from " + std::to_string(least) + " to " + std::to_string(most));
    return value.get<std::int64_t>();
  }
  // read(index of the key in `keys`, its value) for each key of an object.
  template <class Read>
  void each(std::vector<std::string_view> keys, const Read& read) const {
    if (!value.is_object()) fail("must be an object in braces");
    for (const auto& [key, child] : value.items()) {
      const std::size_t i = choose(where, "key", key, keys);
      read(i, Node{child, where + (is_root ? ": " : ".") + key});
    }
  }
  // What narrow's own parsers say about a word, with the place in front.
  template <class Parse>
  auto parse(const Parse& parse_word) const {
    try {
      return parse_word(text());
    } catch (const Error& error) {
      const std::string message = error.what();
      if (message.starts_with(where)) throw;
      fail(message);
    }
  }
};

}  // namespace narrow::train
