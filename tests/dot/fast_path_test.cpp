// Does the fast path of gemm() give the bits of dot()?
#include "dot/fast_path.hpp"

#include <doctest/doctest.h>

#include <chrono>

#include "narrow/simd/target.hpp"
#include "support/scale.hpp"

TEST_CASE("gemm: the fast path gives the bits of dot() for every arithmetic") {
  const auto models = test::distinct_models();
  const std::uint64_t each = test::scaled(NARROW_DOT_COUNT, 1000);
  std::vector<test::Mismatches> wrong(models.size());
  std::atomic<std::uint64_t> done{0};
  const auto start = std::chrono::steady_clock::now();
  narrow::parallel_parts(models.size(), 1, 0, [&](std::size_t i, std::size_t) {
    // Where there is no fast path, enough to see that gemm() hands everything over.
    const std::uint64_t count = test::has_fast_path(*models[i]) ? each : std::min<std::uint64_t>(each, 20000);
    done += test::sweep_fast_path(*models[i], count, 1000 * i, wrong[i]);
  });
  for (std::size_t i = 0; i < models.size(); ++i) wrong[i].require_none(std::string(models[i]->name.view()));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  MESSAGE(models.size() << " arithmetics, " << done.load() << " dot products, " << seconds << " s");
}

TEST_CASE("gemm: every other instruction set of this machine gives the bits of dot()") {
  const narrow::simd::Target chosen = narrow::simd::current_target();
  for (const narrow::simd::Target target : narrow::simd::targets_here()) {
    if (target == chosen) continue;  // that is the test above
    narrow::simd::use_target(target);
    const auto models = test::distinct_models();
    std::vector<test::Mismatches> wrong(models.size());
    narrow::parallel_parts(models.size(), 1, 0, [&](std::size_t i, std::size_t) {
      test::sweep_fast_path(*models[i], test::scaled(40000, 20000), 1000 * i + 7, wrong[i]);
    });
    for (std::size_t i = 0; i < models.size(); ++i)
      wrong[i].require_none(std::string(narrow::simd::name_of(target)) + " " + std::string(models[i]->name.view()));
  }
  narrow::simd::use_target(chosen);
}
