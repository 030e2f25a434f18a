// The table of README.md is what the program prints; its commands are run by examples_test.
#include <fstream>
#include <sstream>

#include "program.hpp"

namespace {

std::string readme() {
  std::ostringstream text;
  text << std::ifstream(NARROW_ROOT "/README.md").rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("apps: the table of formats in README is the one that the program prints") {
  const test::Ran ran = test::narrow({"formats", "--markdown"});
  CHECK(ran.status == 0);
  CHECK(test::contains(readme(), "\n\n" + ran.out + "\n"));
}
