// Source of every table: Megatron-LM megatron/core/optimizer/grad_scaler.py, DynamicGradScaler.update.
#include "narrow/scale/megatron_scaler.hpp"

#include "transitions.hpp"

using narrow::MegatronScaler;
using narrow::MegatronState;
using narrow::ScaleEvent;
using test::after;
using test::scales;

namespace {
constexpr MegatronScaler small{.init = 1024, .min = 1, .growth_interval = 4, .hysteresis = 2};
}

TEST_CASE("scale: megatron's defaults are 2^32 with window 1000 and hysteresis 2") {
  const MegatronScaler scaler;
  CHECK(scale(initial(scaler)) == 0x1p32f);
  CHECK(after(scaler, test::repeat("g", 999)).scale == 0x1p32f);
  CHECK(after(scaler, test::repeat("g", 1000)) == MegatronState{0x1p33f, 0, 2, ScaleEvent::grew});
}

TEST_CASE("scale: megatron's first overflow is held back and the second reduces") {
  CHECK(after(small, "b") == MegatronState{1024, 0, 1, ScaleEvent::held_back});
  CHECK(after(small, "bb") == MegatronState{512, 0, 0, ScaleEvent::backed_off});
}

// "consecutive" in the docstring is not what the code does: good steps between two overflows refill nothing.
TEST_CASE("scale: two overflows anywhere within a growth window reduce megatron's scale") {
  CHECK(after(small, "bgggb") == MegatronState{512, 0, 0, ScaleEvent::backed_off});
  CHECK(scales(small, "bgggbgggb") == std::vector<double>{1024, 1024, 1024, 1024, 1024, 512, 512, 512, 512, 256});
}

// The tracker goes below zero and stays there: each later overflow reduces again, until growth.
TEST_CASE("scale: only growth refills megatron's hysteresis") {
  CHECK(after(small, "bbb") == MegatronState{256, 0, -1, ScaleEvent::backed_off});
  CHECK(after(small, "bbbgggg") == MegatronState{512, 0, 2, ScaleEvent::grew});
  CHECK(after(small, "bbbggggb") == MegatronState{512, 0, 1, ScaleEvent::held_back});
}

TEST_CASE("scale: an overflow restarts megatron's growth window even when it is held back") {
  CHECK(after(small, "gggb").growth_tracker == 0);
  CHECK(after(small, "gggbggg") == MegatronState{1024, 3, 1, ScaleEvent::none});
  CHECK(after(small, "gggbgggg") == MegatronState{2048, 0, 2, ScaleEvent::grew});
}

TEST_CASE("scale: megatron stays at its minimum without an error") {
  const MegatronScaler scaler{.init = 4, .min = 1, .hysteresis = 1};
  CHECK(scales(scaler, "bbbb") == std::vector<double>{4, 2, 1, 1, 1});
  CHECK(after(scaler, "bbb").event == ScaleEvent::at_minimum);
  CHECK(scales(MegatronScaler{.init = 3, .min = 1, .hysteresis = 1}, "bb") == std::vector<double>{3, 1.5, 1});
}

TEST_CASE("scale: megatron has no upper bound and its trace says when the scale is lost") {
  const MegatronScaler scaler{.init = 0x1p127, .growth_interval = 1};
  CHECK(after(scaler, "g").event == ScaleEvent::lost);
  CHECK(std::isinf(after(scaler, "g").scale));
}

TEST_CASE("scale: megatron multiplies in FP32") {
  CHECK(after(MegatronScaler{.init = 1000, .backoff = 0.3, .hysteresis = 1}, "b").scale == 1000.0f * 0.3f);
}

TEST_CASE("scale: megatron refuses a minimum above the initial scale") {
  CHECK_THROWS_WITH_AS(check(MegatronScaler{.init = 2, .min = 4}), "megatron: min 4 is above init 2", narrow::Error);
}
