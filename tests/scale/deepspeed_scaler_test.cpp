// Source of every table: DeepSpeed deepspeed/runtime/fp16/loss_scaler.py, DynamicLossScaler.update_scale.
#include "narrow/scale/deepspeed_scaler.hpp"

#include "transitions.hpp"

using narrow::DeepSpeedScaler;
using narrow::DeepSpeedState;
using narrow::ScaleEvent;
using test::after;
using test::scales;

namespace {
constexpr DeepSpeedScaler window5{.init = 1024, .growth_interval = 5};
constexpr DeepSpeedScaler no_hysteresis{.init = 1024, .growth_interval = 5, .hysteresis = 1};
}  // namespace

TEST_CASE("scale: deepspeed's defaults are 2^16 with window 1000 and hysteresis 2") {
  CHECK(initial(DeepSpeedScaler{}) == DeepSpeedState{65536, 0, -1, 2, ScaleEvent::none});
  CHECK(after(DeepSpeedScaler{}, test::repeat("g", 1000)).scale == 65536);
  CHECK(after(DeepSpeedScaler{}, test::repeat("g", 1001)).scale == 131072);
}

// Confirmed with DeepSpeed itself and a window of 5: last_overflow starts at -1, and stable = 0 does not count.
TEST_CASE("scale: deepspeed's first growth needs window + 1 good steps and later ones the window") {
  CHECK(scales(window5, "ggggggggggg") ==
        std::vector<double>{1024, 1024, 1024, 1024, 1024, 1024, 2048, 2048, 2048, 2048, 2048, 4096});
  // After an overflow it is window + 1 again.
  CHECK(scales(no_hysteresis, "bgggggg") == std::vector<double>{1024, 512, 512, 512, 512, 512, 512, 1024});
}

TEST_CASE("scale: deepspeed's hysteresis holds the first overflow back and is not refilled by a reduction") {
  CHECK(after(window5, "b") == DeepSpeedState{1024, 1, 0, 1, ScaleEvent::held_back});
  CHECK(after(window5, "bb") == DeepSpeedState{512, 2, 1, 1, ScaleEvent::backed_off});
  CHECK(after(window5, "bbb").scale == 256);
  CHECK(after(window5, "bbgb").scale == 256);  // a good step between does not help
}

TEST_CASE("scale: growth refills deepspeed's hysteresis") {
  CHECK(after(window5, "bb" + std::string("gggggg")) == DeepSpeedState{1024, 8, 1, 2, ScaleEvent::grew});
  CHECK(after(window5, "bbggggggb") == DeepSpeedState{1024, 9, 8, 1, ScaleEvent::held_back});
}

TEST_CASE("scale: with consecutive hysteresis every good step refills deepspeed's") {
  const DeepSpeedScaler scaler{.init = 1024, .growth_interval = 5, .hysteresis = 2, .consecutive_hysteresis = true};
  CHECK(after(scaler, "bgbgbg") == DeepSpeedState{1024, 6, 4, 2, ScaleEvent::none});
  CHECK(after(scaler, "bb").scale == 512);
  CHECK(after(scaler, "bbg").hysteresis == 2);
}

TEST_CASE("scale: an overflow at deepspeed's minimum ends the run as an event") {
  const DeepSpeedScaler scaler{.init = 4, .min = 1, .hysteresis = 1};
  CHECK(scales(scaler, "bb") == std::vector<double>{4, 2, 1});
  const DeepSpeedState ended = after(scaler, "bbb");
  CHECK(ended == DeepSpeedState{1, 2, 1, 1, ScaleEvent::ended});
  CHECK(next(scaler, ended, {false, 0}) == ended);  // nothing happens any more
  CHECK(next(scaler, ended, {true, 0}) == ended);
  CHECK(to_text(ended) == "scale 1, iteration 2, last_overflow 1, hysteresis 1, ended");
}

// The error comes before hysteresis is asked only when the hysteresis is used up.
TEST_CASE("scale: deepspeed's hysteresis also holds at the minimum") {
  const DeepSpeedScaler scaler{.init = 1, .min = 1, .hysteresis = 2};
  CHECK(after(scaler, "b").event == ScaleEvent::held_back);
  CHECK(after(scaler, "bb").event == ScaleEvent::ended);
  const DeepSpeedScaler quiet{.init = 1, .min = 1, .hysteresis = 1, .raise_at_min = false};
  CHECK(after(quiet, "bbb").event == ScaleEvent::at_minimum);
}

// The unfused profile's minimum is 0.25; a scale that is no power of two lands on the minimum.
TEST_CASE("scale: deepspeed clamps to its minimum before it raises") {
  const DeepSpeedScaler scaler{.init = 0.6, .min = 0.25, .hysteresis = 1};
  CHECK(after(scaler, "bb").scale == 0.25);
  CHECK(after(scaler, "bbb").event == ScaleEvent::ended);
}
