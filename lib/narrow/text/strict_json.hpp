// JSON from outside as a tree: the one reader of recipes, configuration files, checkpoints' metadata and recorded logs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace narrow {

// Throws Error, one printable line: what is no JSON, nests deeper than such files do, names a key twice, or has bytes
// after its end. `help` closes the line where the text is no JSON.
// Json: nlohmann::json or nlohmann::ordered_json. The parser is compiled once, in strict_json.cpp.
template <class Json>
Json parse_strict_json(std::string_view json, const std::string& where, const std::string& help = "");

}  // namespace narrow
