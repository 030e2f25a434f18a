#include "analysis/recordings/gradients.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "narrow/format/find_format.hpp"
#include "narrow/round/round_to.hpp"

using namespace narrow;
using analysis::FormatShares;
using analysis::Gradients;
using analysis::Values;

namespace {

// By definition: round every value and look.
struct Counted {
  std::uint64_t zero = 0, subnormal = 0, overflow = 0, nonzero = 0;
};
Counted count(const std::vector<float>& data, const Format& f, int scale_log2) {
  Counted c;
  for (const float x : data) {
    if (x == 0 || !std::isfinite(x)) continue;
    ++c.nonzero;
    const double y = round_to(std::ldexp(static_cast<double>(x), scale_log2), f);
    if (y == 0) ++c.zero;
    else if (!std::isfinite(y)) ++c.overflow;
    else if (std::fabs(y) < std::ldexp(1.0, f.min_exponent())) ++c.subnormal;
  }
  return c;
}

}  // namespace

// The zero threshold is the first value of its binade: equal unless a value is exactly that tie. The subnormal share
// may count the values that round up to the smallest normal: the last 2^-(mantissa bits) of their binade, where values
// are up to twice as dense as on average.
TEST_CASE("analysis: shares of a histogram are those of rounding every value") {
  for (const Values& v : analysis::read_values_of(*analysis::find_data("torch/step300.safetensors"), "grad")) {
    CAPTURE(v.name);
    const ExponentHistogram h = exponent_histogram(v.data);
    for (const std::string name : {"fp16", "bf16", "e5m2", "e4m3"})
      for (const int k : {0, 8, 16}) {
        CAPTURE(name);
        CAPTURE(k);
        const Format f = *find_format(name);
        const Counted c = count(v.data, f, k);
        const FormatShares s = analysis::shares_of(h, f, k);
        const auto all = static_cast<double>(c.nonzero);
        CHECK(std::llround(s.zero * all) == static_cast<long long>(c.zero));
        const double seam =
            std::ldexp(2.0 * static_cast<double>(h.binade(std::clamp(f.min_exponent() - 1 - k, -126, 127)).total()),
                       -f.mantissa_bits);
        CHECK(s.subnormal * all >= static_cast<double>(c.subnormal) - 0.5);
        CHECK(s.subnormal * all <=
              static_cast<double>(c.subnormal) + seam + 16);  // 16: chance, in binades of few values
        CHECK(s.overflow * all <= static_cast<double>(c.overflow) + 0.5);
      }
  }
}

TEST_CASE("analysis: the largest scale is the last one that does not overflow") {
  for (const double amax : {0x1p-30, 0.0267, 0.0856, 1.0, 65519.0, 65520.0, 70000.0, 1e9, 3e38}) {
    CAPTURE(amax);
    const int k = analysis::largest_scale_log2(amax);
    CHECK(std::isfinite(round_to(std::ldexp(amax, k), "fp16"_fmt)));
    CHECK(std::isinf(round_to(std::ldexp(amax, k + 1), "fp16"_fmt)));
  }
  CHECK(analysis::largest_scale_log2(0) == 127);
}

// A step that overflows is skipped, so a scale at which anything overflows counts for nothing. Of the others the one
// that loses least, of these the one closest to 1: tried one by one, with every value rounded.
TEST_CASE("analysis: the loss scale never overflows and loses least and is the closest to 1 of those") {
  const auto by_definition = [](const std::vector<float>& data) {
    int best = 0;
    std::uint64_t least = ~std::uint64_t{0};
    for (int step = 0; step <= 2 * 127; ++step) {
      const int k = step % 2 == 0 ? step / 2 : -(step + 1) / 2;  // 0, -1, 1, -2, 2, ..
      if (k < -126) continue;
      const Counted c = count(data, "fp16"_fmt, k);
      if (c.overflow == 0 && (c.zero < least || (c.zero == least && std::abs(k) == std::abs(best))))
        least = c.zero, best = k;
    }
    return best;
  };
  std::vector<std::vector<float>> cases = {
      {1, 1, 1},        {0x1p-30f, 1},                     // exactly where it ties to zero
      {0x1.8p-30f, 1},  {1e-9f, 1e-9f, 1e-9f, 1e-9f, 40},  // one large value against many small ones
      {70000},          {1e38f, 1e-38f},
      {1e-44f, 3e-45f}, {65519, 65520},
      {0, 0, 1e-7f}};
  std::vector<float> spread;
  for (int e = -40; e < 10; ++e) spread.push_back(std::ldexp(1.25f, e));
  cases.push_back(spread);
  std::vector<float> one_against_many = {40};  // to give up the one would save thirty
  for (int e = -60; e < -30; ++e) one_against_many.push_back(std::ldexp(1.25f, e));
  cases.push_back(one_against_many);
  for (const std::vector<float>& data : cases) {
    CAPTURE(data[0]);
    const int k = analysis::loss_scale_log2(analysis::from_values({{"g", 1, data.size(), data}}));
    CHECK(k == by_definition(data));
  }
  // Of a recording only binades and the largest value are known.
  analysis::Gradients recorded = analysis::from_values({{"g", 1, spread.size(), spread}});
  recorded.tensors[0].values.clear();
  CHECK(analysis::loss_scale_log2(recorded) == by_definition(spread));
}

// A tie goes to zero, a value just above it does not: binades cannot tell, the values can.
TEST_CASE("analysis: gradients of a file are counted value by value") {
  const std::vector<float> ties(8, 0x1p-25f), above(8, 0x1.000002p-25f);
  const narrow::ScaledFormat asked[] = {{{"fp16"_fmt}, 0}};
  const auto rows = analysis::shares_of(analysis::from_values({{"a", 1, 8, ties}, {"b", 1, 8, above}}), asked);
  CHECK(rows[0][0].zero == 1);
  CHECK(rows[1][0].zero == 0);
  CHECK(rows[2][0].zero == 0.5);
}

// Four times the tokens make the gradients of a mean loss four times smaller. Other sequences differ a little.
TEST_CASE("analysis: activation gradients shrink as one over the tokens in the recording") {
  const std::optional<analysis::Recording> r = analysis::load_recording();
  REQUIRE(r);
  int measured = 0;
  constexpr double other_text = 0.25;  // binades: spread between batches of the same weights
  for (const analysis::TokenRow& row : analysis::token_rows(*r, *analysis::find_pass(*r, "step 300"))) {
    if (std::isnan(row.measured_shift)) continue;
    ++measured;
    CAPTURE(row.tokens);
    CHECK(std::fabs(row.measured_shift - row.predicted_shift) < other_text);
  }
  CHECK(measured == 3);
}

// Under FP16 autocast at loss scale 1 the GPU itself must lose about what the FP32 gradients predict.
TEST_CASE("analysis: the zeros that the GPU made in FP16 are those that the histogram predicts") {
  const std::optional<analysis::Recording> r = analysis::load_recording();
  REQUIRE(r);
  for (const int step : {0, 10, 100, 300, 1000}) {
    CAPTURE(step);
    const std::string label = "step " + std::to_string(step);
    const Gradients wide = analysis::from_pass(*analysis::find_pass(*r, label), "actgrad");
    const Gradients half = analysis::from_pass(*analysis::find_pass(*r, label + " in fp16 at 2^0"), "actgrad");
    const double predicted = analysis::zeros_among(wide.all) + analysis::shares_of(wide.all, "fp16"_fmt).zero;
    const double made = analysis::zeros_among(half.all);
    constexpr double factor = 1.6;  // zeros of one product make zeros of the next: never fewer, not many more
    CHECK(made > predicted * 0.99);
    CHECK(made < predicted * factor);
  }
}

TEST_CASE("analysis: gradients of a file are the tensors named grad and a note says so") {
  const std::string file = *analysis::find_data("torch/step300.safetensors");
  const Gradients g = analysis::from_file(file);
  CHECK(g.tensors.size() == 12);
  REQUIRE(g.notes.size() == 1);
  CHECK(g.notes[0] == "Counted are the 12 of 24 floating tensors whose names contain grad.");
  Counted all;
  for (const Values& v : analysis::read_values_of(file, "grad")) {
    const Counted c = count(v.data, "fp16"_fmt, 4);
    all.zero += c.zero, all.subnormal += c.subnormal, all.nonzero += c.nonzero;
  }
  CHECK(analysis::nonzero_count(g.all) == all.nonzero);
  const narrow::ScaledFormat asked[] = {{{"fp16"_fmt}, 4}};
  const FormatShares s = analysis::shares_of(g, asked).back()[0];
  CHECK(std::llround(s.zero * static_cast<double>(all.nonzero)) == static_cast<long long>(all.zero));
  CHECK(std::llround(s.subnormal * static_cast<double>(all.nonzero)) == static_cast<long long>(all.subnormal));
}
