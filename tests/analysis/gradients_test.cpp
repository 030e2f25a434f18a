#include "gradients.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

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

TEST_CASE("analysis: the best scale is the last one that does not overflow") {
  for (const double amax : {0x1p-30, 0.0267, 0.0856, 1.0, 65519.0, 65520.0, 70000.0, 1e9}) {
    CAPTURE(amax);
    const int k = analysis::best_scale_log2(amax);
    CHECK(std::isfinite(round_to(std::ldexp(amax, k), "fp16"_fmt)));
    CHECK(std::isinf(round_to(std::ldexp(amax, k + 1), "fp16"_fmt)));
  }
  CHECK(analysis::best_scale_log2(0) == 60);
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

TEST_CASE("analysis: gradients of a file are the tensors named grad") {
  const std::string file = std::string(NARROW_SHARED) + "/data/torch-gpt/given_step300.safetensors";
  if (!std::filesystem::exists(file)) {
    MESSAGE("skipped: " << file << " is not here");
    return;
  }
  const Gradients g = analysis::from_file(file);
  CHECK(g.tensors.size() == 31);
  CHECK(analysis::nonzero_count(g.all) == 587249);
  const FormatShares s = analysis::shares_of(g.all, "fp16"_fmt);
  CHECK(std::lround(1e5 * s.zero) == 125);
  CHECK(std::lround(1e3 * s.subnormal) == 394);
}
