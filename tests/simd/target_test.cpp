// Which instruction sets are there, and does the environment choose among them?
#include "narrow/simd/target.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

#include "support/contains.hpp"

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
  const std::string words = test::error_of([] { (void)target_named("mmx"); });
  CHECK(contains(words, "NARROW_SIMD='mmx'"));
  CHECK(contains(words, std::string(name_of(0))));
}
