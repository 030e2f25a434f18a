// The JSON of recipes and of other frameworks' configuration files: a strict reader, and a value that knows its place.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "narrow/base/error.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/train/recipe_words.hpp"

namespace narrow::train {

using Json = nlohmann::ordered_json;

// Throws Error, one printable line: what is no JSON, nests deeper than a configuration does, or names a key twice.
inline Json parse_config_json(std::string_view json, const std::string& where) {
  constexpr int deepest = 32;
  std::vector<std::pair<std::set<std::string>, std::string>> open;  // objects: their keys so far, and the last of them
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > deepest) throw Error(where + ": nested deeper than " + std::to_string(deepest) + " levels");
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event != Json::parse_event_t::key) return true;
    std::string section;
    for (std::size_t i = 0; i + 1 < open.size(); ++i) section += quote(open[i].second) + ": ";
    open.back().second = value.get<std::string>();
    if (!open.back().first.insert(open.back().second).second)
      throw Error(where + ": " + section + "key " + quote(open.back().second) + " is given twice");
    return true;
  };
  try {
    return Json::parse(json, watch);
  } catch (const nlohmann::json::exception& error) {
    // Without what it quotes from the file, which may be long and not printable: "last read", and numbers beyond FP64.
    std::string reason = error.what();
    if (const std::size_t at = reason.find("] "); at != std::string::npos) reason.erase(0, at + 2);
    reason.erase(std::min(reason.find("; last read"), reason.size()));
    if (reason.find("column") == std::string::npos) reason = "a number that is too large";
    throw Error(where + ": no JSON: " + reason.substr(0, reason.find('\n')) +
                "; narrow train --print-recipe shows one");
  }
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
