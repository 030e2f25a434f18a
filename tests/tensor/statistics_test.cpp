// Are the statistics of a tensor those of its values, whatever the type, the pieces, the scales and the threads?
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "files.hpp"
#include "make_tensors.hpp"
#include "narrow/array/histogram.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/tensor/chunks.hpp"
#include "narrow/tensor/tensor_statistics.hpp"
#include "narrow/text/text.hpp"
#include "support/scale.hpp"

using namespace test;
using narrow::FormatCast;
using narrow::FormatStatistics;
using narrow::ScaledCast;
using narrow::Statistics;
using narrow::Tensor;

namespace {

std::vector<FormatCast> casts_of(const std::vector<std::string>& names) {
  std::vector<FormatCast> casts;
  for (const std::string& name : names) casts.push_back({narrow::require_format(name)});
  return casts;
}
std::vector<ScaledCast> scaled_casts(const std::vector<FormatCast>& casts, double scale) {
  std::vector<ScaledCast> out;
  for (const FormatCast& to : casts) out.push_back({to, scale});
  return out;
}

std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }

void check_same(const FormatStatistics& a, const FormatStatistics& b) {
  CHECK(a.underflow == b.underflow);
  CHECK(a.subnormal == b.subnormal);
  CHECK(a.overflow == b.overflow);
  CHECK(a.saturated == b.saturated);
  CHECK(a.compared == b.compared);
  CHECK(bits(a.squared_error) == bits(b.squared_error));
  CHECK(bits(a.signal) == bits(b.signal));
  CHECK(bits(a.max_relative_error) == bits(b.max_relative_error));
}
void check_same(const Statistics& a, const Statistics& b) {
  CHECK(a.input.count == b.input.count);
  CHECK(a.input.zeros == b.input.zeros);
  CHECK(a.input.nan == b.input.nan);
  CHECK(a.input.inf == b.input.inf);
  CHECK(bits(a.input.amax) == bits(b.input.amax));
  CHECK(bits(a.input.min_nonzero) == bits(b.input.min_nonzero));
  CHECK(bits(a.input.sum) == bits(b.input.sum));
  REQUIRE(a.formats.size() == b.formats.size());
  for (std::size_t k = 0; k < a.formats.size(); ++k) check_same(a.formats[k], b.formats[k]);
}

}  // namespace

TEST_CASE("statistics of a tensor: pieces give the bits of the whole") {
  const std::vector<float> values = mixed_floats(narrow::chunk_values + 70001, 11);
  const Tensor tensor = tensor_of("F32", values);
  const auto casts = casts_of({"fp16", "e4m3"});
  const Statistics expected = narrow::statistics(values, casts, 8);
  check_same(narrow::tensor_statistics(tensor, scaled_casts(casts, 8), {.threads = 1}), expected);
  check_same(narrow::tensor_statistics(tensor, scaled_casts(casts, 8), {.threads = 3}), expected);
  std::uint64_t bytes = 0;
  check_same(narrow::tensor_statistics(as_stream(tensor), scaled_casts(casts, 8),
                                       {.done = [&](std::uint64_t n) { bytes += n; }}),
             expected);
  CHECK(bytes == tensor.bytes());
}

TEST_CASE("statistics of a tensor: each format has its own scale") {
  const std::vector<float> values = mixed_floats(5000, 12);
  const Tensor tensor = tensor_of("F32", values);
  const auto casts = casts_of({"e4m3", "fp16", "e5m2"});
  const std::vector<ScaledCast> scaled{{casts[0], 1024}, {casts[1], 1}, {casts[2], 1024}};
  const Statistics together = narrow::tensor_statistics(tensor, scaled);
  for (std::size_t k = 0; k < scaled.size(); ++k) {
    const Statistics alone = narrow::statistics(values, {&casts[k], 1}, scaled[k].scale);
    check_same(together.formats[k], alone.formats[0]);
  }
  CHECK(narrow::tensor_statistics(tensor, {}).input.count == 5000);
}

TEST_CASE("statistics of a tensor: every floating type is measured by its exact values") {
  const auto casts = casts_of({"e4m3", "e2m1"});
  for (const narrow::ElementType& type : narrow::element_types()) {
    if (!type.has_format()) continue;
    CAPTURE(type.name);
    std::vector<std::uint64_t> codes;
    for (std::size_t i = 0; i < 4000; ++i) codes.push_back(narrow::random_bits(5, i) & type.format.code_mask());
    const Tensor tensor = tensor_of_codes(type, codes);
    if (type.format.width() == 64) {
      std::vector<double> values;
      for (const std::uint64_t code : codes) values.push_back(narrow::decode(code, type.format));
      check_same(narrow::tensor_statistics(tensor, scaled_casts(casts, 1)), narrow::statistics(values, casts));
    } else {
      std::vector<float> values;
      for (const std::uint64_t code : codes) values.push_back(static_cast<float>(narrow::decode(code, type.format)));
      check_same(narrow::tensor_statistics(tensor, scaled_casts(casts, 1)), narrow::statistics(values, casts));
    }
  }
}

TEST_CASE("statistics of a tensor: stochastic casts draw by the index in C order") {
  const std::uint64_t rows = 300, cols = 250;
  const std::vector<float> values = mixed_floats(rows * cols, 13);
  const std::vector<FormatCast> casts{{narrow::require_format("e4m3"), {.rounding = narrow::Rounding::stochastic}}};
  const Statistics expected = narrow::statistics(values, casts, 1, 99);
  check_same(narrow::tensor_statistics(tensor_of("F32", values, {rows, cols}), scaled_casts(casts, 1), {.seed = 99}),
             expected);
  check_same(narrow::tensor_statistics(as_fortran("F32", values, rows, cols), scaled_casts(casts, 1), {.seed = 99}),
             expected);
  CHECK(narrow::tensor_statistics(tensor_of("F32", values), scaled_casts(casts, 1), {.seed = 98})
            .formats[0]
            .squared_error != expected.formats[0].squared_error);
}

TEST_CASE("statistics of a tensor: integers are refused and so are impossible scales") {
  const auto casts = scaled_casts(casts_of({"fp16"}), 1);
  const Tensor integers = tensor_of<std::int32_t>("I32", {1, 2});
  CHECK(error_of([&] { (void)narrow::tensor_statistics(integers, casts); }).find("holds I32") != std::string::npos);
  for (const char* type : {"F32", "F64"}) {
    const Tensor tensor = tensor_of_codes(type_named(type), {0, 0});
    CHECK(error_of([&] {
            (void)narrow::tensor_statistics(tensor, scaled_casts(casts_of({"fp16"}), -1));
          }).find("scale") != std::string::npos);
  }
}

// By the definition: every power of two, every element, the scalar functions. Two objectives, both without overflow.
TEST_CASE("statistics of a tensor: the automatic scale is the best of all powers of two that overflow nothing") {
  constexpr narrow::Rounding modes[] = {narrow::Rounding::nearest_even, narrow::Rounding::toward_zero};
  for (const char* name : {"fp16", "bf16", "e4m3", "e5m2", "e2m1", "e3m2", "int8", "e4m3fnuz"}) {
    for (const int spread : {4, 12, 40}) {
      CAPTURE(name);
      CAPTURE(spread);
      const FormatCast to{narrow::require_format(name), {.rounding = modes[spread == 12 ? 1 : 0]}};
      std::vector<float> values;
      for (std::size_t i = 0; i < scaled(300, 100); ++i) {
        const std::uint64_t r = narrow::random_bits(17 + static_cast<std::uint64_t>(spread), i);
        const float size = 1.0f + static_cast<float>(r >> 40) * 0x1p-24f;
        values.push_back(std::ldexp(r % 2 == 0 ? size : -size, static_cast<int>(r % 997) % spread - spread - 3));
      }
      values.push_back(HUGE_VALF), values.push_back(std::nanf(""));  // what is not finite has no say
      std::uint64_t least = ~0ull;
      double expected = 0;
      std::vector<std::pair<double, double>> errors;  // and scales, closest to 1 first
      for (int distance = 0; distance <= 127; ++distance)
        for (const int k : {distance, -distance}) {
          if (k < -126) continue;
          const float scale = std::ldexp(1.0f, k);
          std::uint64_t lost = 0, over = 0;
          double error = 0;
          for (const float x : values) {
            if (!std::isfinite(x)) continue;
            const float s = x * scale;
            over += std::isinf(s) || narrow::overflows(s, to.format, to.cast) ? 1 : 0;
            const double r = narrow::decode(narrow::encode(s, to.format, to.cast), to.format);
            lost += x != 0 && r == 0 ? 1 : 0;
            error += std::pow(std::ldexp(r, -k) - static_cast<double>(x), 2);
          }
          if (over != 0) continue;
          if (lost < least) least = lost, expected = static_cast<double>(scale);
          errors.emplace_back(error, static_cast<double>(scale));
        }
      double least_error = HUGE_VAL;
      for (const auto& [error, scale] : errors) least_error = std::min(least_error, error);
      constexpr double to_twelve_digits = 1 + 0x1p-40;
      const double best = std::find_if(errors.begin(), errors.end(), [&](const auto& e) {
                            return e.first <= least_error * to_twelve_digits;
                          })->second;
      const Tensor halves[] = {tensor_of("F32", std::vector<float>(values.begin(), values.begin() + 50)),
                               tensor_of("F32", std::vector<float>(values.begin() + 50, values.end()))};
      CHECK(narrow::auto_scales(halves, {&to, 1})[0].scale == expected);
      CHECK(narrow::auto_scales(halves, {&to, 1}, narrow::ScaleGoal::best_sqnr)[0].scale == best);
      const narrow::ExponentHistogram h = narrow::exponent_histogram(values);
      float low = 0, high = 0;
      for (const float x : values)
        if (std::isfinite(x)) low = std::min(low, x), high = std::max(high, x);
      CHECK(std::ldexp(1.0, narrow::loss_scale_log2(h, low, high, to).value()) == expected);
    }
  }
}

TEST_CASE("statistics of a tensor: the automatic scale of extremes is 1 or the last that fits or said not to exist") {
  const auto scale_of = [](const char* format, const Tensor& tensor, narrow::Cast cast = {}) {
    const FormatCast to{narrow::require_format(format), cast};
    return narrow::auto_scales({&tensor, 1}, {&to, 1})[0];
  };
  CHECK(scale_of("e4m3", tensor_of("F32", std::vector<float>(9))).scale == 1);
  CHECK(scale_of("e4m3", tensor_of<float>("F32", {NAN, HUGE_VALF})).scale == 1);
  CHECK(scale_of("fp16", tensor_of<float>("F32", {65519, 1})).scale == 1);
  CHECK(scale_of("fp16", tensor_of<float>("F32", {65520, 1})).scale == 0.5);
  CHECK(scale_of("int8", tensor_of<float>("F32", {-128, 1})).scale == 1);  // the two ends differ
  CHECK(scale_of("int8", tensor_of<float>("F32", {128, 1})).scale == 0.5);
  // A draw could round 65505 up to Inf.
  CHECK(scale_of("fp16", tensor_of<float>("F32", {65505}), {.rounding = narrow::Rounding::stochastic}).scale == 0.5);
  CHECK_FALSE(scale_of("fp16", tensor_of<double>("F64", {1e39})).overflows);
  const narrow::AutoScale none = scale_of("fp16", tensor_of<double>("F64", {1e300}));
  CHECK(none.overflows);
  CHECK(none.scale == 0x1p-126);
  CHECK_FALSE(narrow::largest_scale_log2(0.0, 1e300, {narrow::require_format("fp16")}));
  CHECK(narrow::largest_scale_log2(-1.0f, 1.0f, {narrow::require_format("fp32")}) == 127);
}
