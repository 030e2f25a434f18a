#include "narrow/plot/ticks.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace narrow;
using namespace narrow::report;
using namespace narrow::plot;

namespace {

std::string texts(const ReadyAxis& axis) {
  std::string all;
  for (const Tick& tick : axis.ticks) all += (all.empty() ? "" : " ") + tick.text;
  return all;
}

}  // namespace

TEST_CASE("plot: ticks are round numbers inside of the range") {
  CHECK(texts(ready_axis({}, {0, 18}, Around::stand, 7)) == "0 5 10 15 20");
  CHECK(texts(ready_axis({}, {0, 0.9}, Around::tight, 5)) == "0.0 0.2 0.4 0.6 0.8");
  CHECK(texts(ready_axis({}, {0, 1000}, Around::tight, 5)) == "0 200 400 600 800 1,000");
  CHECK(texts(ready_axis({.scale = AxisScale::log10}, {0.02, 500}, Around::tight, 6)) == "0.1 1 10 100");
  CHECK(texts(ready_axis({.scale = AxisScale::log10}, {1e-9, 1}, Around::tight, 5)) == "10^-8 10^-6 10^-4 10^-2 10^0");
  CHECK(texts(ready_axis({.scale = AxisScale::log2}, {32, 32768}, Around::tight, 6)) == "64 256 1,024 4,096 16,384");
  CHECK(texts(ready_axis({.scale = AxisScale::log2}, {0x1p-24, 0x1p24}, Around::tight, 6)) ==
        "2^-24 2^-16 2^-8 2^0 2^8 2^16 2^24");
  CHECK(texts(ready_axis({.scale = AxisScale::exponent_of_two, .low = -44, .high = 18}, {}, Around::room, 8)) ==
        "2^-40 2^-32 2^-24 2^-16 2^-8 2^0 2^8 2^16");
}

TEST_CASE("plot: places of categories and given ticks are taken as they are") {
  CHECK(texts(ready_axis({.categories = {"a", "b"}}, {0, 1}, Around::room, 1)) == "a b");
  const ReadyAxis axis = ready_axis({.low = 0, .high = 10, .ticks = {{5, "five"}, {50, "out"}}}, {}, Around::room, 9);
  CHECK(texts(axis) == "five");
  CHECK(axis.part(5) == 0.5);
}

TEST_CASE("plot: bars stand on zero and data is never outside of its axis") {
  CHECK(ready_axis({}, {5, 6}, Around::stand, 5).low == 0);
  CHECK(ready_axis({}, {-5, 6}, Around::stand, 5).low < -5);
  for (const AxisScale scale : {AxisScale::linear, AxisScale::log2, AxisScale::log10, AxisScale::exponent_of_two})
    for (const std::vector<double>& values : {std::vector<double>{1, 2, 3},
                                              {7},
                                              {1e-30, 1e30},
                                              {3, 3},
                                              {1e16, 1e16 + 2},
                                              {-1, 1},
                                              {1e308, -1e308},
                                              {5e-324, 1}}) {
      const ReadyAxis axis = ready_axis({.scale = scale}, values, Around::room, 6);
      CHECK(axis.low < axis.high);
      CHECK(axis.ticks.size() <= 14);
      for (const double v : values) {
        const double part = axis.part(v);
        if (std::isfinite(part) && std::fabs(v) < 1e300) CHECK((part >= 0 && part <= 1));
      }
      for (const Tick& tick : axis.ticks)
        CHECK((tick.at >= axis.low - 1e-6 * std::fabs(axis.low) && tick.at <= axis.high * (1 + 1e-6) + 1e-6));
    }
}

TEST_CASE("plot: an axis without anything to show is still an axis") {
  for (const AxisScale scale : {AxisScale::linear, AxisScale::log2, AxisScale::log10, AxisScale::exponent_of_two})
    for (const std::vector<double>& values : {std::vector<double>{}, {NAN, INFINITY}, {-1, 0}}) {
      const ReadyAxis axis = ready_axis({.scale = scale}, values, Around::room, 6);
      CHECK(axis.low < axis.high);
    }
  const ReadyAxis turned = ready_axis({.low = 5, .high = 1}, {1, 2}, Around::room, 6);
  CHECK(turned.low < turned.high);
}
