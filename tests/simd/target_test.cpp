// Which instruction sets are there, and does the environment choose among them?
#include "narrow/simd/target.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

#include "narrow/base/error.hpp"

using namespace narrow::simd;

TEST_CASE("simd: the instruction set that every machine has comes first, and the best is what runs") {
  const auto here = targets_here();
  REQUIRE_FALSE(here.empty());
  CHECK(here.front() == 0);
  for (std::size_t i = 1; i < here.size(); ++i) CHECK(here[i - 1] < here[i]);
  if (std::getenv("NARROW_SIMD") == nullptr) CHECK(current_target() == here.back());
}

TEST_CASE("simd: NARROW_SIMD names the instruction set; another word is refused with those that are there") {
  for (const Target target : targets_here()) CHECK(target_named(std::string(name_of(target)).c_str()) == target);
  CHECK(target_named(nullptr) == targets_here().back());
  CHECK(target_named("") == targets_here().back());
  try {
    (void)target_named("mmx");
    FAIL("taken");
  } catch (const narrow::Error& e) {
    CHECK(std::string(e.what()) .find("NARROW_SIMD='mmx'") != std::string::npos);
    CHECK(std::string(e.what()).find(name_of(0)) != std::string::npos);
  }
}
