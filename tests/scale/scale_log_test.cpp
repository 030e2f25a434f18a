// What the program cannot show, because it makes every word visible on its way out: messages are inert by themselves.
#include "narrow/scale/scale_log.hpp"

#include <doctest/doctest.h>

#include "narrow/base/error.hpp"

TEST_CASE("scale: names of logs and of runs cannot steer a terminal from a message") {
  const auto message = [](const char* name, const char* run) -> std::string {
    try {
      (void)narrow::parse_scale_log("step,amax\n0,1\n", name, run);
    } catch (const narrow::Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message("log\x1b", "b\v") == "log\\x1B: one log, without runs to choose from; leave out ':b\\x0B'");
  CHECK(message("log", "") == "");
}
