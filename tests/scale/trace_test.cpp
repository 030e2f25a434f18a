#include "narrow/scale/trace.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "narrow/base/error.hpp"
#include "narrow/scale/gradient_log.hpp"
#include "support/scale.hpp"

using narrow::GradientLog;
using narrow::make_scaler;
using narrow::OverflowModel;
using narrow::ScaleEvent;
using narrow::Trace;
using narrow::TraceSummary;

namespace {

OverflowModel with_amax(const std::vector<float>& amax) {
  GradientLog log;
  for (std::size_t i = 0; i < amax.size(); ++i) log.steps.push_back(static_cast<std::int64_t>(i));
  log.amax = amax;
  return OverflowModel(log);
}
Trace trace(const std::string& scaler, const OverflowModel& log) { return run_trace(*make_scaler(scaler).scaler, log); }

}  // namespace

TEST_CASE("scale: a trace holds the scale before each step and what was skipped") {
  const OverflowModel log = with_amax(std::vector<float>(8, 1.0f));  // overflows from 65520 on
  const Trace t = trace("torch:init=2^18:growth-interval=3", log);
  std::vector<double> scales;
  std::vector<bool> skipped;
  for (const narrow::TraceStep& s : t.steps)
    scales.push_back(static_cast<double>(s.scale)), skipped.push_back(s.skipped);
  CHECK(scales == std::vector<double>{0x1p18, 0x1p17, 0x1p16, 0x1p15, 0x1p15, 0x1p15, 0x1p16, 0x1p15});
  CHECK(skipped == std::vector<bool>{true, true, true, false, false, false, true, false});
  CHECK(t.steps[5].event == ScaleEvent::grew);
  CHECK(t.estimated == 0);
  const TraceSummary s = summarise(t);
  CHECK(s.skipped == 4);
  CHECK(s.first == 0x1p18f);
  CHECK(s.last == 0x1p15f);
  CHECK(s.longest_skip == 3);
  CHECK(s.time_at_scale ==
        std::vector<std::pair<float, std::uint64_t>>{{0x1p18f, 1}, {0x1p17f, 1}, {0x1p16f, 2}, {0x1p15f, 4}});
  CHECK(s.settled == std::size_t{2});  // from step 2 on it is 2^15 or 2^16
  CHECK_FALSE(s.collapsed);
  CHECK_FALSE(s.stalled);
}

TEST_CASE("scale: without a scaler nothing is skipped whatever overflows") {
  const Trace t = trace("none", with_amax({1e30f, 1}));
  CHECK_FALSE(t.steps[0].skipped);
  CHECK(summarise(t).skipped == 0);
}

TEST_CASE("scale: a trace ends where the log cannot tell") {
  GradientLog log;
  log.steps = {0, 1, 2, 3, 4, 5};
  log.scale.assign(6, 1024.0f), log.found_inf.assign(6, 0);
  const OverflowModel good(log);
  const Trace grows = trace("torch:init=512:growth-interval=2", good);
  REQUIRE(grows.steps.size() == 5);  // 512, 512, 1024, 1024, 2048
  CHECK(grows.ends_unknown());
  CHECK(grows.steps.back().scale == 2048);
  CHECK(grows.steps[3].event == ScaleEvent::grew);
  CHECK_FALSE(trace("torch:init=512", good).ends_unknown());
  CHECK(trace("torch:init=2^100", good).steps.size() == 1);
  CHECK(trace("none", good).steps.size() == 6);  // nobody looks for Inf
  log.amax = {1, 1, GradientLog::no_amax, 1, 1, 1};
  CHECK_THROWS_AS(trace("te-current", OverflowModel(log)), narrow::Error);
}

TEST_CASE("scale: collapse and stall and end are found") {
  const OverflowModel bad = with_amax(std::vector<float>(200, std::numeric_limits<float>::infinity()));
  const TraceSummary torch = summarise(trace("torch", bad));
  CHECK(torch.collapsed == std::size_t{144});  // 2^16 / 2^144 = 2^-128: its reciprocal is infinite
  CHECK(torch.stalled == std::size_t{0});
  CHECK(torch.longest_skip == 200);
  CHECK(torch.smallest == 0);
  const Trace deepspeed = trace("deepspeed:init=4:hysteresis=1", bad);
  CHECK(deepspeed.steps.size() == 3);
  CHECK(summarise(deepspeed).ended == std::size_t{2});
  CHECK(deepspeed.steps.back().skipped);
  const TraceSummary keras = summarise(trace("keras", bad));
  CHECK(keras.smallest == 1);
  CHECK(keras.stalled == std::size_t{0});
  CHECK_FALSE(keras.collapsed);
}

TEST_CASE("scale: a scale that still moves at the end has not settled") {
  std::vector<float> amax(100, 1.0f);
  const Trace t = trace("torch:init=1:growth-interval=6", with_amax(amax));  // doubles 16 times in 100 steps
  CHECK_FALSE(summarise(t).settled);
}

TEST_CASE("scale: a scale that is not a number has not settled") {
  const Trace t = trace("torchao", with_amax({std::nanf(""), std::nanf(""), 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  CHECK(std::isnan(t.steps[0].scale));
  CHECK(summarise(t).settled == std::size_t{2});
  CHECK(summarise(t).collapsed == std::size_t{0});
}

TEST_CASE("scale: delayed scaling clips what outgrows its history and current scaling nothing") {
  std::vector<float> amax = {1, 1, 8, 8, 1};
  const Trace delayed = trace("te-delayed", with_amax(amax));
  CHECK(delayed.steps[0].scale == 1);
  CHECK(delayed.steps[1].scale == 448);
  CHECK(delayed.steps[2].scale == 448);
  CHECK(delayed.steps[3].scale == 56);
  CHECK(delayed.clipped == 1);  // 8 * 448
  const Trace current = trace("te-current", with_amax(amax));
  CHECK(current.steps[2].scale == 56);
  CHECK(current.clipped == 0);
  GradientLog log;
  log.steps = {0};
  log.found_inf = {1};
  CHECK_THROWS_AS(trace("te-delayed", OverflowModel(log)), narrow::Error);
}

TEST_CASE("scale: a million steps of ten policies take less than two seconds") {
  const std::vector<float> pieces = {1e-3f, 2e-3f, 5e-3f};
  const std::size_t steps = test::scaled(1000000);
  const OverflowModel log = with_amax(narrow::model_amax(narrow::GradientModel::spikes, pieces, steps, 1));
  const auto start = std::chrono::steady_clock::now();
  for (const char* name :
       {"none", "constant", "torch", "megatron", "deepspeed", "apex", "fairseq", "keras", "te-delayed", "te-current"})
    CHECK(summarise(trace(name, log)).time_at_scale.size() >= 1);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  MESSAGE(steps, " steps of ten policies: ", seconds, " s");
#ifdef NDEBUG
  constexpr double budget = 2 * 10;  // ten times what is promised: a busy machine must not fail the test
  CHECK(seconds < budget);
#endif
}
