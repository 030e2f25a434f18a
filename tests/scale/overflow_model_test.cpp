#include "narrow/scale/overflow_model.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "narrow/base/error.hpp"

using narrow::GradientLog;
using narrow::OverflowBasis;
using narrow::OverflowModel;

namespace {

OverflowModel recorded(const std::vector<float>& scales, const std::vector<std::uint8_t>& found) {
  GradientLog log;
  for (std::size_t i = 0; i < scales.size(); ++i) log.steps.push_back(static_cast<std::int64_t>(i));
  log.scale = scales, log.found_inf = found;
  return OverflowModel(log);
}
bool found(const OverflowModel& m, std::size_t i, float scale) { return m.at(i, scale).found_inf; }
bool estimated(const OverflowModel& m, std::size_t i, float scale) { return m.at(i, scale).is_estimate; }

}  // namespace

TEST_CASE("scale: with amax a step overflows where FP16 rounds to Inf") {
  GradientLog log;
  log.steps = {0, 1, 2, 3, 4};
  log.amax = {1, 65519.99f, 0, std::numeric_limits<float>::infinity(), std::nanf("")};
  const OverflowModel m(log);
  CHECK(m.basis() == OverflowBasis::amax);
  CHECK_FALSE(found(m, 0, 65519.0f));
  CHECK(found(m, 0, 65520.0f));
  CHECK_FALSE(found(m, 1, 1));
  CHECK(found(m, 1, 1.001f));
  CHECK_FALSE(found(m, 2, 0x1p127f));
  CHECK(found(m, 3, 1));
  CHECK(found(m, 4, 1));
  CHECK(found(m, 2, std::numeric_limits<float>::infinity()));  // 0 * Inf is NaN
  CHECK_FALSE(estimated(m, 0, 1));
}

TEST_CASE("scale: without a recorded scale found_inf is what was recorded") {
  GradientLog log;
  log.steps = {0, 1};
  log.found_inf = {0, 1};
  const OverflowModel m(log);
  CHECK(m.basis() == OverflowBasis::recorded_only);
  CHECK_FALSE(found(m, 0, 0x1p100f));
  CHECK(found(m, 1, 1));
}

// The start of the recorded run: overflow at 16, 8, 4, good from 2 on.
TEST_CASE("scale: a recorded step decides larger scales when it overflowed and smaller ones when it did not") {
  const OverflowModel m = recorded({16, 8, 4, 2, 2}, {1, 1, 1, 0, 0});
  CHECK(found(m, 0, 16));
  CHECK(found(m, 0, 64));
  CHECK_FALSE(estimated(m, 0, 64));
  CHECK_FALSE(found(m, 3, 2));
  CHECK_FALSE(found(m, 3, 1));
  CHECK_FALSE(estimated(m, 3, 0.5f));
  // In between: the descent shows that 4 overflows and 2 does not.
  for (const std::size_t step : {0u, 1u}) {
    CHECK(found(m, step, 4));
    CHECK_FALSE(found(m, step, 2));
    CHECK(estimated(m, step, 4));
    CHECK(estimated(m, step, 2));
  }
  CHECK(found(m, 3, 4));
  CHECK(found(m, 4, 8));
  CHECK(estimated(m, 4, 8));
  CHECK(found(m, 3, 2.9f));  // strictly between 2 and 4: the middle of the exponents is 2.83
  CHECK_FALSE(found(m, 3, 2.8f));
}

TEST_CASE("scale: the nearest step of the other kind counts and not one that contradicts") {
  const OverflowModel m = recorded({8, 8, 8, 8, 4, 4, 4, 32}, {1, 0, 0, 0, 0, 0, 0, 1});
  CHECK(found(m, 1, 16));  // next to an overflow at its own scale: from twice its scale on
  CHECK_FALSE(found(m, 1, 8));
  CHECK_FALSE(found(m, 6, 8));  // 32 overflowed next to it; 4 was good
  CHECK(found(m, 6, 16));
  // An overflow whose neighbour was good at a larger scale: half of its own is believed to pass.
  const OverflowModel n = recorded({64, 8, 64}, {0, 1, 0});
  CHECK(found(n, 1, 8));
  CHECK_FALSE(found(n, 1, 4));
}

TEST_CASE("scale: a log without any overflow says nothing of larger scales and without a good step of smaller ones") {
  const OverflowModel good = recorded({8, 8}, {0, 0});
  CHECK_FALSE(found(good, 0, 0x1p60f));
  CHECK(estimated(good, 0, 0x1p60f));
  const OverflowModel bad = recorded({8, 4}, {1, 1});
  CHECK(found(bad, 1, 0x1p-60f));
  CHECK(estimated(bad, 1, 0x1p-60f));
}

TEST_CASE("scale: logs that say nothing are refused") {
  CHECK_THROWS_AS(OverflowModel(GradientLog{}), narrow::Error);
  GradientLog empty;
  empty.steps = {0};
  CHECK_THROWS_AS((OverflowModel(empty)), narrow::Error);
  empty.found_inf = {0, 1};
  CHECK_THROWS_AS((OverflowModel(empty)), narrow::Error);
}
