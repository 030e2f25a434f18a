#include "narrow/text/strict_json.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "narrow/base/error.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

template <class Json>
Json parse_strict_json(std::string_view json, const std::string& where, const std::string& help) {
  constexpr int deepest = 32;
  std::vector<std::pair<std::set<std::string>, std::string>> open;  // objects: their keys so far, and the last of them
  const auto watch = [&](int depth, typename Json::parse_event_t event, Json& value) {
    if (depth > deepest) throw Error(where + ": nested deeper than " + std::to_string(deepest) + " levels");
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event != Json::parse_event_t::key) return true;
    std::string section;
    for (std::size_t i = 0; i + 1 < open.size(); ++i) section += quote(open[i].second) + ": ";
    open.back().second = value.template get<std::string>();
    if (!open.back().first.insert(open.back().second).second)
      throw Error(where + ": " + section + "key " + quote(open.back().second) + " is given twice");
    return true;
  };
  // The parser would take a zero byte for the end and never look at what follows.
  if (const std::size_t zero = json.find('\0'); zero != std::string_view::npos)
    throw Error(where + ": no JSON: a zero byte at byte " + std::to_string(zero) + help);
  try {
    return Json::parse(json, watch);
  } catch (const typename Json::exception& error) {
    // Without what it quotes from the file, which may be long and not printable: "last read", and numbers beyond FP64.
    std::string reason = error.what();
    if (const std::size_t at = reason.find("] "); at != std::string::npos) reason.erase(0, at + 2);
    reason.erase(std::min(reason.find("; last read"), reason.size()));
    if (reason.find("column") == std::string::npos) reason = "a number that is too large";
    throw Error(where + ": no JSON: " + reason.substr(0, reason.find('\n')) + help);
  }
}

template nlohmann::json parse_strict_json(std::string_view, const std::string&, const std::string&);
template nlohmann::ordered_json parse_strict_json(std::string_view, const std::string&, const std::string&);

}  // namespace narrow
