// Does the fast path of gemm() give the bits of dot()?
#include "dot/fast_path.hpp"

#include <doctest/doctest.h>

#include <chrono>

#include "support/scale.hpp"

TEST_CASE("gemm: the fast path gives the bits of dot() for every arithmetic") {
  const auto models = test::distinct_models();
  const std::uint64_t each = test::scaled(NARROW_DOT_COUNT, 10000);
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
