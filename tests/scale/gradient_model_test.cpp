#include "narrow/scale/gradient_log.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "narrow/base/error.hpp"

using narrow::GradientModel;
using narrow::model_amax;

TEST_CASE("scale: gradient models grow and decay by 2^16 and spike now and then") {
  const std::vector<float> one = {1.0f};
  const std::vector<float> growth = model_amax(GradientModel::growth, one, 101, 1),
                           decay = model_amax(GradientModel::decay, one, 101, 1);
  CHECK(growth.front() == 1);
  CHECK(growth.back() == 65536);
  CHECK(decay.back() == 0x1p-16f);
  CHECK(std::is_sorted(growth.begin(), growth.end()));
  const std::vector<float> spikes = model_amax(GradientModel::spikes, one, 20000, 1);
  const auto level = std::count(spikes.begin(), spikes.end(), 1.0f);
  CHECK(level > 19800);
  CHECK(level < 19980);
  CHECK(*std::max_element(spikes.begin(), spikes.end()) == 4096);
}

TEST_CASE("scale: gradient models draw from the pieces and repeat with the seed") {
  const std::vector<float> pieces = {0, 2, 3, std::numeric_limits<float>::infinity()};
  const std::vector<float> a = model_amax(GradientModel::spikes, pieces, 1000, 7);
  CHECK(a == model_amax(GradientModel::spikes, pieces, 1000, 7));
  CHECK(a != model_amax(GradientModel::spikes, pieces, 1000, 8));
  CHECK(std::count(a.begin(), a.end(), 2.0f) + std::count(a.begin(), a.end(), 3.0f) > 950);
  CHECK_THROWS_AS(model_amax(GradientModel::decay, std::vector<float>{0, 0}, 10, 1), narrow::Error);
  CHECK_THROWS_AS(narrow::parse_gradient_model("shrink"), narrow::Error);
  CHECK(narrow::parse_gradient_model("decay") == GradientModel::decay);
}
