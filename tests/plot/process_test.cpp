#include "narrow/plot/process.hpp"

#include <doctest/doctest.h>

#include <chrono>

#include "narrow/base/error.hpp"

using namespace narrow;

TEST_CASE("plot: a program gets its input and gives its output whatever their size") {
  const std::string large(3'000'000, 'x');
  const Finished cat = run_process({"cat"}, large, 20);
  CHECK(cat.status == 0);
  CHECK(cat.out == large);
  CHECK(run_process({"cat"}, "", 20).out == "");
  // A reader that does not read: no signal, no waiting.
  CHECK(run_process({"true"}, large, 20).status == 0);
}

TEST_CASE("plot: how a program ended is told") {
  const Finished failed = run_process({"sh", "-c", "echo out; echo err >&2; exit 3"}, "", 20);
  CHECK(failed.status == 3);
  CHECK(failed.out == "out\n");
  CHECK(failed.err == "err\n");
  CHECK(run_process({"sh", "-c", "kill -9 $$"}, "", 20).status == 1009);
  CHECK_THROWS_AS(run_process({"no-such-program-of-that-name"}, "", 20), Error);
  CHECK(run_process({"sh", "-c", "echo $LC_ALL"}, "", 20).out == "C.UTF-8\n");
}

TEST_CASE("plot: a program that does not end is ended") {
  const auto start = std::chrono::steady_clock::now();
  CHECK_THROWS_AS(run_process({"sleep", "30"}, "", 1), Error);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
}

TEST_CASE("plot: programs are found on PATH alone") {
  CHECK(is_on_path("sh"));
  CHECK(!is_on_path("no-such-program-of-that-name"));
}
