// Source: TransformerEngine 2.20 common/recipe/delayed_scaling.cu, kernel_bulk.
#include "narrow/scale/delayed_scaling.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <deque>
#include <limits>

#include "support/inputs.hpp"
#include "support/scale.hpp"

using narrow::DelayedState;
using narrow::TeDelayedScaling;

using test::infinity;
using test::nan_value;

namespace {


DelayedState after(const TeDelayedScaling& scaler, const std::vector<float>& amaxes) {
  DelayedState state = initial(scaler);
  for (const float amax : amaxes) state = next(scaler, state, {false, amax});
  return state;
}
float scale_after(const TeDelayedScaling& scaler, const std::vector<float>& amaxes) {
  return scale(after(scaler, amaxes));
}

// The definition, slowly: `history` rows, row 0 the newest step's, rolled by one after each step.
float slow_scale(const TeDelayedScaling& p, const std::vector<float>& amaxes) {
  std::deque<float> rows(static_cast<std::size_t>(p.history), 0.0f);
  float scale = 1;
  for (const float newest : amaxes) {
    float amax = 0;
    if (newest != 0) {  // entries move down by one, the newest to the last slot; else the module did not run
      rows.pop_front();
      rows.push_back(newest);
      for (const float a : rows) amax = std::fmax(amax, a);
      rows[0] = 0;
    }
    if (p.most_recent) amax = newest;
    if (!(amax > 0) || std::isinf(amax)) continue;
    const float scaled_max = static_cast<float>(p.fp8_max) * std::exp2(-static_cast<float>(p.margin));
    scale = scaled_max / amax;
    if (std::isinf(scale)) scale = std::numeric_limits<float>::max();
  }
  return scale;
}

}  // namespace

TEST_CASE("scale: delayed scaling starts at one and follows the largest amax of its history") {
  const TeDelayedScaling scaler{.history = 3};
  CHECK(scale(initial(scaler)) == 1);
  CHECK(scale_after(scaler, {2}) == 224);
  CHECK(scale_after(scaler, {2, 1}) == 224);
  CHECK(scale_after(scaler, {2, 1, 1}) == 224);     // the window is the newest and two before it
  CHECK(scale_after(scaler, {2, 1, 1, 1}) == 448);  // 2 has left
  CHECK(scale_after(scaler, {1, 4}) == 112);
}

TEST_CASE("scale: delayed scaling by the most recent amax forgets at once") {
  const TeDelayedScaling scaler{.history = 3, .most_recent = true};
  CHECK(scale_after(scaler, {4, 1}) == 448);
  CHECK(scale_after(scaler, {4, 0}) == 112);  // 0: the module did not run
}

// One division, of 448 * 2^-margin: a quotient that is beyond FP32 before the margin, or rounded there as a subnormal,
// is not the same.
TEST_CASE("scale: the margin divides by a power of two and backward uses the range of E5M2") {
  CHECK(scale_after({.margin = 3}, {2}) == 28);
  CHECK(scale_after({.margin = 9}, {0x1p-126f}) ==
        0x1.cp125f);  // 448 / 2^-126 would be Inf, and stay the largest float
  CHECK(scale_after({.margin = 127}, {0x1.8p+20f}) == 448 * 0x1p-127f / 0x1.8p+20f);
  CHECK(scale_after({.fp8_max = 57344}, {2}) == 28672);
  CHECK(narrow::largest(narrow::hybrid_format(narrow::TrainingPass::forward)) == 448);
  CHECK(narrow::largest(narrow::hybrid_format(narrow::TrainingPass::backward)) == 57344);
}

TEST_CASE("scale: an amax of zero or Inf or NaN keeps the old scale") {
  for (const float bad : {0.0f, infinity, nan_value}) {
    CAPTURE(bad);
    CHECK(scale_after({.most_recent = true}, {bad}) == 1);
    CHECK(scale_after({.most_recent = true}, {2, bad}) == 224);
    CHECK(scale_after({}, {bad}) == 1);
  }
}

// The maximum of floats drops a NaN.
TEST_CASE("scale: a NaN in the history is ignored by max") {
  CHECK(scale_after({}, {2, nan_value}) == 224);
  CHECK(scale_after({}, {2, nan_value, 4}) == 112);
}

TEST_CASE("scale: an Inf freezes the scale until it has left the window") {
  const TeDelayedScaling scaler{.history = 4};
  CHECK(scale_after(scaler, {2, infinity}) == 224);
  CHECK(scale_after(scaler, {2, infinity, 7}) == 224);
  CHECK(scale_after(scaler, {2, infinity, 7, 7}) == 224);
  CHECK(scale_after(scaler, {2, infinity, 7, 7, 7}) == 224);  // three steps after the Inf it still is one of four
  CHECK(scale_after(scaler, {2, infinity, 7, 7, 7, 7}) == 64);
  std::vector<float> long_run(1025, 7.0f);
  long_run[0] = infinity;
  CHECK(scale_after({}, {long_run.begin(), long_run.end() - 1}) == 1);
  CHECK(scale_after({}, long_run) == 64);
}

TEST_CASE("scale: an amax too small for a finite quotient gives the largest float") {
  CHECK(scale_after({}, {0x1p-149f}) == std::numeric_limits<float>::max());
  CHECK(scale_after({}, {0x1.cp-119f}) == 0x1p127f);
}

TEST_CASE("scale: an amax of zero leaves the history as it is") {
  const TeDelayedScaling scaler{.history = 3};
  CHECK(scale_after(scaler, {2, 0, 0, 0, 0, 1}) == 224);
  CHECK(scale_after(scaler, {2, 0, 0, 0, 0, 1, 1}) == 224);
  CHECK(scale_after(scaler, {2, 0, 0, 0, 0, 1, 1, 1}) == 448);
  CHECK(scale_after(scaler, {4, 1, 1}) == 112);
  CHECK(scale_after(scaler, {4, 1, 1, 0}) == 112);  // the scale stays, though 4 is the next to leave the window
  CHECK(scale_after(scaler, {4, 1, 1, 0, 1}) == 448);
}

TEST_CASE("scale: the ring of delayed scaling equals the rolled rows of the definition") {
  for (const std::int64_t history : {1, 2, 3, 7}) {
    for (const bool most_recent : {false, true}) {
      const TeDelayedScaling scaler{.margin = history % 3, .history = history, .most_recent = most_recent};
      CAPTURE(history);
      std::vector<float> amaxes;
      for (std::uint64_t i = 0; i < test::scaled(400); ++i) {
        const std::uint64_t r = test::mix(i);
        const float special[] = {0, infinity, nan_value};
        amaxes.push_back(r % 5 == 0 ? special[r / 5 % 3] : static_cast<float>(r % 1000 + 1));
        REQUIRE(scale_after(scaler, amaxes) == slow_scale(scaler, amaxes));
        if (amaxes.size() > 40) amaxes.erase(amaxes.begin());
      }
    }
  }
}

TEST_CASE("scale: delayed scaling refuses histories and margins beyond reason") {
  CHECK_THROWS_AS(check(TeDelayedScaling{.margin = 200}), narrow::Error);
  CHECK_THROWS_AS(check(TeDelayedScaling{.history = std::int64_t{1} << 40}), narrow::Error);
}
