// Numbers and text as JSON: what JSON cannot hold becomes the string "inf", "-inf" or "nan".
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace app {

using Json = nlohmann::ordered_json;  // keys in the order they are written

inline Json json_number(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  return x;
}

// Indented, and visible() with the same values; text that is not UTF-8 gets replacement characters, where dump() alone
// would throw.
std::string json_text(const Json& value);

}  // namespace app
