// What the program cannot show, because it makes every word visible on its way out: messages are inert by themselves.
#include "narrow/scale/scale_log.hpp"

#include <doctest/doctest.h>

#include "support/contains.hpp"

namespace {

std::string message(const std::string& name, const std::string& run, const std::string& text = "step,amax\n0,1\n") {
  return test::error_of([&] { (void)narrow::parse_scale_log(text, name, run); });
}

}  // namespace

TEST_CASE("scale: names of logs and of runs cannot steer a terminal from a message") {
  CHECK(message("log\x1b", "b\v") == "log\\x1B: one log, without runs to choose from; leave out ':b\\x0B'");
  CHECK(message("log", "") == "");
}

TEST_CASE("scale: a message about a log is short, whatever the names in it are") {
  std::string columns;
  for (int i = 0; i < 12; ++i) columns += (i == 0 ? "\"" : ", \"") + std::string(100, '\xFF') + "\"";
  const std::string text = message("log", "", R"({"rows": [[]], "columns": [)" + columns + "]}");
  CHECK(text.find("a row of 0 values") != std::string::npos);
  CHECK(text.size() < 1000);
  CHECK(message("log", std::string(10'000, '\xFF')).size() < 1000);
}
