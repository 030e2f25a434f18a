// A text within a text, as nearly every test of a message asks.
#pragma once

#include <string>

namespace test {

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace test
using test::contains;
