// Hand-computed tables of the three simpler scalers. Sources: apex/amp/scaler.py at 03b0eeb; fairseq
// fairseq/optim/dynamic_loss_scaler.py; keras LossScaleOptimizer with the floor of issue 16100.
#include "narrow/scale/apex_scaler.hpp"
#include "narrow/scale/fairseq_scaler.hpp"
#include "narrow/scale/fixed_scale.hpp"
#include "narrow/scale/keras_scaler.hpp"
#include "transitions.hpp"

using narrow::ScaleEvent;
using test::after;
using test::scales;

TEST_CASE("scale: apex starts at 2^16 and never exceeds 2^24") {
  const narrow::ApexScaler scaler;
  CHECK(after(scaler, test::repeat("g", 1999)).scale == 65536);
  CHECK(after(scaler, test::repeat("g", 2000)).scale == 131072);
  const narrow::ApexScaler fast{.init = 0x1p23, .growth_interval = 1};
  CHECK(scales(fast, "ggg") == std::vector<double>{0x1p23, 0x1p24, 0x1p24, 0x1p24});
  CHECK(after(fast, "gg").event == ScaleEvent::at_maximum);
  CHECK(initial(narrow::ApexScaler{.init = 0x1p30}).scale == 0x1p24);  // min(max_loss_scale, init_scale)
}

TEST_CASE("scale: apex halves at once and has a floor only when one is given") {
  CHECK(scales(narrow::ApexScaler{.init = 4}, "bbbb") == std::vector<double>{4, 2, 1, 0.5, 0.25});
  const narrow::ApexScaler floored{.init = 4, .min = 1};
  CHECK(scales(floored, "bbb") == std::vector<double>{4, 2, 1, 1});
  CHECK(after(floored, "bbb").event == ScaleEvent::at_minimum);
  // A Python float outlives FP32: the loss sees 0 after 166 halvings of 2^16, and growth can bring it back.
  const auto gone = after(narrow::ApexScaler{}, test::repeat("b", 166));
  CHECK(scale(gone) == 0);
  CHECK(gone.scale == 0x1p-150);
  CHECK(gone.event == ScaleEvent::lost);
  CHECK(scale(after(narrow::ApexScaler{.growth_interval = 1}, test::repeat("b", 166) + "g")) == 0x1p-149f);
  CHECK_THROWS_WITH_AS(check(narrow::ApexScaler{.min = 64, .max = 2}), "apex: min 64 is above max 2", narrow::Error);
}

TEST_CASE("scale: fairseq grows after the window counted from the last overflow") {
  const narrow::FairseqScaler scaler{.init = 8, .growth_interval = 3};
  CHECK(scales(scaler, "gggggg") == std::vector<double>{8, 8, 8, 16, 16, 16, 32});
  CHECK(scales(scaler, "gbggg") == std::vector<double>{8, 8, 4, 4, 4, 8});
}

TEST_CASE("scale: fairseq puts the scale back and ends when the minimum is reached") {
  const narrow::FairseqScaler scaler{.init = 4, .min = 1};
  const auto ended = after(scaler, "bb");  // 4 -> 2 -> 1 <= min
  CHECK(ended.event == ScaleEvent::ended);
  CHECK(ended.scale == 2);
  CHECK(next(scaler, ended, {true, 0}) == ended);
  // metaseq PR #115: init 4, window 256, minimum 2^-5.
  const narrow::FairseqScaler metaseq{.init = 4, .min = 0x1p-5, .growth_interval = 256};
  CHECK(after(metaseq, "bbbbbb").scale == 0x1p-4);
  CHECK(after(metaseq, "bbbbbbb").event == ScaleEvent::ended);
}

TEST_CASE("scale: fairseq tolerates a share of overflows and stops at its threshold") {
  const narrow::FairseqScaler tolerant{.init = 8, .tolerance = 0.5, .growth_interval = 100};
  // last_rescale starts at -1: at iteration 3 one overflow in 4 iterations is a quarter.
  CHECK(after(tolerant, "gggb").event == ScaleEvent::held_back);
  CHECK(after(tolerant, "gggbb").scale == 8);   // 2 of 5
  CHECK(after(tolerant, "gggbbb").scale == 4);  // 3 of 6
  const narrow::FairseqScaler floored{.init = 4, .min = 1e-4, .threshold = 2};
  CHECK(scales(floored, "bbb") == std::vector<double>{4, 2, 2, 2});
  CHECK(after(floored, "bb").event == ScaleEvent::at_minimum);
}

TEST_CASE("scale: keras never goes below one") {
  const narrow::KerasScaler scaler;
  CHECK(scale(initial(scaler)) == 32768);
  CHECK(after(scaler, test::repeat("b", 15)).scale == 1);
  CHECK(after(scaler, test::repeat("b", 40)) == narrow::KerasState{1, 0, ScaleEvent::at_minimum});
  CHECK(after(scaler, test::repeat("g", 1999)).scale == 32768);
  CHECK(after(scaler, test::repeat("g", 2000)).scale == 65536);
  CHECK(after(narrow::KerasScaler{.init = 0x1p127, .growth_interval = 1}, "gg").scale == 0x1p127f);
}

TEST_CASE("scale: without a scaler and with a constant one the scale stays") {
  CHECK(scales(narrow::NoScale{}, "gbg") == std::vector<double>{1, 1, 1, 1});
  CHECK(scales(narrow::ConstantScale{.init = 128}, "gbg") == std::vector<double>{128, 128, 128, 128});
  CHECK_FALSE(narrow::NoScale::skips_on_inf);
  CHECK(narrow::ConstantScale::skips_on_inf);
}
