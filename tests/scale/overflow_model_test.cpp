#include "narrow/scale/gradient_log.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "narrow/base/error.hpp"
#include "support/inputs.hpp"
#include "support/contains.hpp"

using narrow::Certainty;
using narrow::GradientLog;
using narrow::OverflowModel;

namespace {

OverflowModel recorded(const std::vector<float>& scales, const std::vector<std::uint8_t>& found) {
  GradientLog log;
  for (std::size_t i = 0; i < scales.size(); ++i) log.steps.push_back(static_cast<std::int64_t>(i));
  log.scale = scales, log.found_inf = found;
  return OverflowModel(log);
}
bool found(const OverflowModel& m, std::size_t i, float scale) { return m.at(i, scale).found_inf; }
Certainty certainty(const OverflowModel& m, std::size_t i, float scale) { return m.at(i, scale).certainty; }
bool estimated(const OverflowModel& m, std::size_t i, float scale) {
  return certainty(m, i, scale) == Certainty::estimated;
}
bool unknown(const OverflowModel& m, std::size_t i, float scale) {
  return certainty(m, i, scale) == Certainty::unknown;
}
}  // namespace

TEST_CASE("scale: with amax a step overflows where FP16 rounds to Inf") {
  GradientLog log;
  log.steps = {0, 1, 2, 3, 4};
  log.amax = {1, 65519.99f, 0, std::numeric_limits<float>::infinity(), std::nanf("")};
  const OverflowModel m(log);
  CHECK(contains(m.describe(), "exact: a step overflows when FP16(amax * scale) is Inf"));
  CHECK(contains(m.describe(), "amax is Inf or NaN at 2 of 5 steps, which overflow at every scale"));
  CHECK(m.unknown_region() == "");
  CHECK_FALSE(found(m, 0, 65519.0f));
  CHECK(found(m, 0, 65520.0f));
  CHECK_FALSE(found(m, 1, 1));
  CHECK(found(m, 1, 1.001f));
  CHECK_FALSE(found(m, 2, 0x1p127f));
  CHECK(found(m, 3, 1));
  CHECK(found(m, 4, 1));
  CHECK(found(m, 2, std::numeric_limits<float>::infinity()));  // 0 * Inf is NaN
  CHECK(found(m, 2, std::nanf("")));
  CHECK(certainty(m, 0, 1) == Certainty::exact);
}

// The bounds are searched for with the product itself, so they are where the product says.
TEST_CASE("scale: the bounds of an amax are the last scale that passes and the first that overflows") {
  GradientLog log;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    log.steps.push_back(static_cast<std::int64_t>(i));
    log.amax.push_back(std::abs(test::from_bits<float>(test::mix(i) >> 32)));
  }
  const OverflowModel m(log);
  for (std::size_t i = 0; i < log.steps.size(); ++i)
    for (const float scale : {65520 / log.amax[i], 1.0f, 65536.0f})
      for (const float s : {std::nextafter(scale, 0.0f), scale, std::nextafter(scale, 2 * scale)})
        REQUIRE(found(m, i, s) == (!std::isfinite(s) || !(log.amax[i] * s < 65520.0f)));
}

TEST_CASE("scale: found_inf without a scale tells nothing of any scale") {
  GradientLog log;
  log.steps = {0, 1};
  log.found_inf = {0, 1};
  const OverflowModel m(log);
  for (const float scale : {0x1p-60f, 1.0f, 0x1p100f})
    for (const std::size_t step : {0u, 1u}) CHECK(unknown(m, step, scale));
  CHECK(m.unknown_region() == "every scale");
  CHECK(contains(m.describe(), "found_inf but not the scale"));
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
  CHECK(unknown(m, 3, 2.9f));  // strictly between 2 and 4, of which no step tells
  CHECK(unknown(m, 0, 2.9f));
  CHECK(m.unknown_region() == "scales between 2 and 4");
  CHECK(contains(m.describe(), "unknown at scales between 2 and 4"));
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

// The nearest step that tells decides, whichever side it is on and however far it is.
TEST_CASE("scale: an estimate is what the nearest deciding step of the log says") {
  constexpr std::size_t n = 300;
  std::vector<float> scales;
  std::vector<std::uint8_t> overflows;
  for (std::size_t i = 0; i < n; ++i) {
    scales.push_back(std::ldexp(1.0f, static_cast<int>(test::mix(i) % 12)));
    overflows.push_back(static_cast<std::uint8_t>(test::mix(i + 1000) % 5 == 0));
  }
  const OverflowModel m = recorded(scales, overflows);
  const auto decides = [&](std::size_t j, float s) { return overflows[j] != 0 ? s >= scales[j] : s <= scales[j]; };
  for (std::size_t i = 0; i < n; ++i)
    for (int e = -1; e < 13; ++e) {
      const float s = std::ldexp(1.0f, e);
      std::size_t distance = 0;  // a step before counts before one after
      const auto before = [&] { return distance <= i && decides(i - distance, s); };
      const auto after = [&] { return i + distance < n && decides(i + distance, s); };
      while (distance < n && !before() && !after()) ++distance;
      REQUIRE(distance < n);
      CHECK(found(m, i, s) == (overflows[before() ? i - distance : i + distance] != 0));
      CHECK(estimated(m, i, s) == (distance != 0));
    }
}

TEST_CASE("scale: a log without any overflow knows nothing of larger scales and without a good step of smaller ones") {
  const OverflowModel good = recorded({8, 8}, {0, 0});
  CHECK(certainty(good, 0, 8) == Certainty::exact);
  CHECK(unknown(good, 0, 8.001f));
  CHECK(unknown(good, 0, 0x1p60f));
  CHECK(good.unknown_region() == "scales above 8");
  const OverflowModel bad = recorded({8, 4}, {1, 1});
  CHECK(estimated(bad, 0, 4));
  CHECK(unknown(bad, 1, 0x1p-60f));
  CHECK(bad.unknown_region() == "scales below 4");
  // A good step of a run in FP32 is no good step in FP16; an overflow is one.
  GradientLog wide;
  wide.steps = {0, 1}, wide.scale = {1, 1}, wide.found_inf = {0, 1}, wide.is_fp16 = false;
  const OverflowModel m(wide);
  CHECK(m.unknown_region() == "scales below 1");
  CHECK(certainty(m, 1, 1) == Certainty::exact);
  CHECK(contains(m.describe(), "the run was not in FP16"));
}

TEST_CASE("scale: a scale that falls tells of an overflow and the last step of nothing") {
  GradientLog log;
  log.steps = {0, 1, 2, 3, 5, 6};
  log.scale = {16, 16, 8, 8, 4, 8};
  const OverflowModel m(log);
  CHECK(m.log().found_inf ==
        std::vector<std::uint8_t>{0, 1, 0, GradientLog::not_recorded, 0, GradientLog::not_recorded});
  CHECK(found(m, 1, 16));
  CHECK(certainty(m, 1, 16) == Certainty::exact);
  CHECK(estimated(m, 5, 8));
  CHECK(contains(m.describe(), "taken from the scale, which falls after an overflow (1 of 6 steps)"));
  CHECK(contains(m.describe(), "the steps have gaps"));
}

TEST_CASE("scale: where amax and found_inf disagree the run is believed and amax is an estimate") {
  GradientLog log;
  log.steps = {0, 1, 2};
  log.amax = {1, 1, 1};  // overflow from 65520 on
  log.scale = {1024, 1024, 512};
  log.found_inf = {0, 1, 0};  // at 1024: other gradients than those of amax
  const OverflowModel m(log);
  CHECK(contains(m.describe(), "amax and found_inf disagree at 1 of 3 steps, first at step 1 (found_inf, but"));
  CHECK(found(m, 1, 1024));
  CHECK(certainty(m, 1, 1024) == Certainty::exact);
  CHECK(certainty(m, 0, 1024) == Certainty::exact);
  CHECK_FALSE(found(m, 0, 4096));
  CHECK(estimated(m, 0, 4096));
  CHECK(estimated(m, 1, 512));
  CHECK(found(m, 0, 0x1p17f));
  log.amax = {1, 1e30f, 1}, log.found_inf = {0, 0, 0};
  CHECK(contains(OverflowModel(log).describe(), "(no found_inf, but FP16(amax * scale) is Inf)"));
  log.amax = {1, 60, GradientLog::no_amax}, log.found_inf = {0, 0, 1}, log.scale = {1024, 1024, 2048};
  const OverflowModel agrees(log);
  CHECK(contains(agrees.describe(), "exact at the 2 of 3 steps with amax"));
  CHECK(found(agrees, 2, 4096));
  CHECK(certainty(agrees, 2, 4096) == Certainty::exact);
  CHECK_FALSE(found(agrees, 2, 1024));
  CHECK(estimated(agrees, 2, 1024));
}

TEST_CASE("scale: a recorded scale that falls without found_inf is said") {
  CHECK(contains(recorded({8, 4, 4}, {0, 0, 0}).describe(), "falls after 1 of 3 steps without found_inf"));
  CHECK_FALSE(contains(recorded({8, 4, 4}, {1, 0, 0}).describe(), "falls"));
}

TEST_CASE("scale: logs that say nothing are refused") {
  CHECK_THROWS_AS(OverflowModel(GradientLog{}), narrow::Error);
  GradientLog empty;
  empty.steps = {0};
  CHECK_THROWS_AS((OverflowModel(empty)), narrow::Error);
  empty.found_inf = {0, 1};
  CHECK_THROWS_AS((OverflowModel(empty)), narrow::Error);
}
