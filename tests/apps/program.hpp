// Short ways to run `narrow` and to look at what it said.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/run_program.hpp"
#include "support/contains.hpp"

namespace test {

using Json = nlohmann::json;

inline Ran narrow(const std::vector<std::string>& arguments, const RunOptions& options = {}) {
  std::vector<std::string> words{NARROW_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_program(words, options);
}

inline Json narrow_json(std::vector<std::string> arguments) {
  arguments.push_back("--json");
  const Ran ran = narrow(arguments);
  CHECK(ran.status == 0);
  CHECK(ran.err == "");
  return Json::parse(ran.out);
}


// A request that cannot be met: status 2, nothing on standard output, one line that holds each of the words.
inline void check_refused(const std::vector<std::string>& arguments, const std::vector<std::string>& words) {
  const Ran ran = narrow(arguments);
  CAPTURE(ran.err.substr(0, 400));
  CHECK(ran.status == 2);
  CHECK(ran.out == "");
  CHECK(ran.err.rfind("narrow: ", 0) == 0);
  CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
  CHECK(ran.err.size() < 2000);
  for (const std::string& word : words) CHECK_MESSAGE(contains(ran.err, word), word);
}

}  // namespace test
