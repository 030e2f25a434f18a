// Messages: what an Error says, and a text within a text.
#pragma once

#include <string>

#include "narrow/base/error.hpp"

namespace test {

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The message of the Error that body throws; empty when it throws none.
template <class Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const narrow::Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace test
using test::contains;
