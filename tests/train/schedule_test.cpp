#include "narrow/train/run/schedule.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "tensor/files.hpp"

using namespace narrow::train;

TEST_CASE("train: a warmup rises by equal parts and reaches the full rate at its last step") {
  const Schedule s{.warmup = 4};
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(rate_factor(s, i) == static_cast<double>(i + 1) / 4);
  CHECK(rate_factor(s, 4) == 1);
  CHECK(rate_factor(s, 1'000'000) == 1);
  CHECK(rate_factor({}, 0) == 1);
}

TEST_CASE("train: a linear and a cosine decay go from one to nothing") {
  const Schedule linear{ScheduleKind::linear, 2, {}, 10}, cosine{ScheduleKind::cosine, 2, {}, 10};
  constexpr double last_bits = 0x1p-50;  // of libm's cosine and of the series, each good to a few ulp
  for (std::uint64_t i = 2; i < 10; ++i) {
    CAPTURE(i);
    CHECK(rate_factor(linear, i) == 1 - static_cast<double>(i - 2) / 8);
    CHECK(std::fabs(rate_factor(cosine, i) - 0.5 * (1 + std::cos(std::acos(-1.0) * static_cast<double>(i - 2) / 8))) <
          last_bits);
    if (i > 2) CHECK(rate_factor(cosine, i) < rate_factor(cosine, i - 1));
  }
  for (const Schedule& s : {linear, cosine}) {
    CHECK(std::fabs(rate_factor(s, 2) - 1) < last_bits);
    CHECK(rate_factor(s, 10) == 0);
    CHECK(rate_factor(s, 99) == 0);
  }
}

TEST_CASE("train: a warmup that leaves nothing to decay is refused") {
  CHECK(test::error_of([] { check(Schedule{ScheduleKind::linear, 9, {}, 10}); }) == "");
  CHECK(test::error_of([] {
          check(Schedule{ScheduleKind::cosine, 10, {}, 10});
        }) == "a warmup of 10 leaves nothing to decay of 10 steps");
  CHECK(test::error_of([] { check(Schedule{.warmup = 10}); }) == "");
}
