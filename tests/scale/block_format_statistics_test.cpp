#include "narrow/scale/block_format.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "narrow/base/error.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/scale/block_scale.hpp"
#include "narrow/scale/quantise.hpp"
#include "support/inputs.hpp"

using narrow::BlockFormat;
using narrow::BlockFormatStatistics;

namespace {

std::vector<float> gradients(std::size_t n) {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t r = test::mix(i);
    x[i] = std::ldexp(static_cast<float>(static_cast<std::int32_t>(r >> 32)), static_cast<int>(r % 24) - 60);
    if (r % 97 == 0) x[i] = 0;
    if (r % 1009 == 0) x[i] = std::nanf("");
    if (r % 1013 == 0) x[i] = -std::numeric_limits<float>::infinity();
  }
  return x;
}

}  // namespace

TEST_CASE("scale: statistics of a block format are those of quantising and decoding") {
  const std::size_t rows = 70, cols = 200;
  const std::vector<float> x = gradients(rows * cols);
  for (const char* name : {"mxfp8_e4m3", "mxfp8_e5m2:cuda_round_up", "mxfp4:torchao_even", "mxint8", "nvfp4",
                           "nvfp4:te_nvfp4_row", "fp8_128x128", "fp8_row_e4m3", "fp8_tensor_e5m2", "bfp4x16"}) {
    CAPTURE(name);
    const BlockFormat f = narrow::require_block_format(name);
    narrow::Quantised q = narrow::quantise(x, rows, cols, f);
    if (f.has_tensor_scale()) {  // as files have it
      q.tensor_scale = narrow::file_factor(narrow::tensor_scale(narrow::tensor_amax(x, f), f), f);
      q.format.rule = narrow::ScaleRule::torchao_nvfp4;
    }
    for (float& kept : q.row_scales) kept = narrow::file_factor(kept, f);
    if (f.has_row_scales()) q.format.rule = narrow::ScaleRule::torchao_nvfp4;
    const std::vector<float> r = narrow::dequantise(q);
    std::uint64_t underflow = 0, subnormal = 0, compared = 0;
    double squared = 0, signal = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!std::isfinite(x[i])) continue;
      underflow += x[i] != 0 && r[i] == 0 ? 1 : 0;
      subnormal += narrow::classify(q.codes[i], f.element) == narrow::ValueClass::subnormal ? 1 : 0;
      if (!std::isfinite(r[i])) continue;
      ++compared;
      const double error = static_cast<double>(r[i]) - static_cast<double>(x[i]);
      squared += error * error, signal += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    }
    const BlockFormatStatistics s = narrow::block_format_statistics(x, rows, cols, f);
    CHECK(s.elements.underflow == underflow);
    CHECK(s.elements.subnormal == subnormal);
    CHECK(s.elements.compared == compared);
    constexpr double summation = 1e-12;  // the order of the sums differs
    CHECK(s.elements.squared_error == doctest::Approx(squared).epsilon(summation));
    CHECK(s.elements.signal == doctest::Approx(signal).epsilon(summation));
    CHECK(s.input.count == x.size());
    CHECK(s.scales.blocks == q.scales.size());
    std::uint64_t counted = s.scales.zeros + s.scales.non_finite;
    for (const auto& [log2, count] : s.scales.by_log2) counted += count;
    CHECK(counted == q.scales.size());
    const BlockFormatStatistics one =
        narrow::block_format_statistics(x, rows, cols, f, f.needs_tensor_amax() ? narrow::tensor_amax(x, f) : 0, 1, 1);
    CHECK(one.elements.squared_error == s.elements.squared_error);  // any number of threads
  }
}

TEST_CASE("scale: the statistics agree with those of a plain format when all scales are one") {
  std::vector<float> x(32 * 50);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 32 == 0 ? 256.0f : std::ldexp(1.0f, -static_cast<int>(i % 32));
  const BlockFormat f = narrow::require_block_format("mxfp8_e4m3");
  const BlockFormatStatistics s = narrow::block_format_statistics(x, 50, 32, f);
  const std::vector<narrow::FormatCast> plain = {{f.element, narrow::element_cast(f)}};
  const narrow::Statistics t = narrow::statistics(x, plain);
  CHECK(s.elements.underflow == t.formats[0].underflow);
  CHECK(s.elements.subnormal == t.formats[0].subnormal);
  CHECK(s.elements.overflow == 0);
  CHECK(s.elements.squared_error == t.formats[0].squared_error);
  CHECK(s.elements.max_relative_error == t.formats[0].max_relative_error);
  CHECK(s.input.amax == t.input.amax);
  CHECK(s.input.min_nonzero == t.input.min_nonzero);
  CHECK(s.scales.by_log2 == std::map<int, std::uint64_t>{{0, 50}});
}

// 480 in a block whose scale is 1 under ocp_floor: beyond 448, and it becomes 448.
TEST_CASE("scale: an element beyond the largest once scaled is an overflow that saturates") {
  std::vector<float> x(32, 1.0f);
  x[3] = 480;
  const BlockFormatStatistics s = narrow::block_format_statistics(x, 1, 32, narrow::require_block_format("mxfp8_e4m3"));
  CHECK(s.elements.overflow == 1);
  CHECK(s.elements.saturated == 1);
  CHECK(s.elements.squared_error == 32 * 32);
  CHECK(s.elements.mse() == 32);  // the clamp is a rounding of the format: its error counts and is defined
  CHECK(s.elements.sqnr_db() == 10 * std::log10((480 * 480 + 31) / 1024.0));
  x[3] = 464;  // a tie that rounds to 448
  CHECK(narrow::block_format_statistics(x, 1, 32, narrow::require_block_format("mxfp8_e4m3")).elements.overflow == 0);
}

// The NaN makes the scale of its block NaN, and so the 31 finite elements beside it.
TEST_CASE("scale: errors are undefined once a finite element of a block became NaN") {
  std::vector<float> x(64, 1.1f);
  const BlockFormat f = narrow::require_block_format("mxfp8_e4m3");
  CHECK(narrow::block_format_statistics(x, 1, 64, f).elements.has_error());
  x[3] = std::nanf("");
  const BlockFormatStatistics s = narrow::block_format_statistics(x, 1, 64, f);
  CHECK(s.elements.not_finite == 31);
  CHECK(std::isnan(s.elements.mse()));
  CHECK(std::isnan(s.elements.sqnr_db()));
}

TEST_CASE("scale: the fate of every value stands in its binade") {
  std::vector<float> x = gradients(70 * 96);
  for (float& v : x) v = std::isfinite(v) ? v : 1.0f;  // a NaN would take its block with it, zeros too
  const BlockFormat f = narrow::require_block_format("mxfp4");
  const BlockFormatStatistics s = narrow::block_format_statistics(x, 70, 96, f, 0, 1, 0, true);
  const narrow::Fates all = s.fates.all();
  CHECK(all[narrow::Fate::zero] == s.elements.underflow);
  CHECK(all[narrow::Fate::beyond] == s.elements.overflow);
  const narrow::ExponentHistogram h = narrow::exponent_histogram(x);
  for (std::size_t k = 1; k < s.fates.binades.size(); ++k)
    CHECK(s.fates.binades[k].total() == h.binades[k - 1].total());
  CHECK(narrow::block_format_statistics(x, 70, 96, f, 0).fates.binades.empty());
}

TEST_CASE("scale: a factor before quantising is undone in the errors") {
  const std::vector<float> x = gradients(64 * 64);
  const BlockFormat f = narrow::require_block_format("mxfp8_e4m3");
  const BlockFormatStatistics a = narrow::block_format_statistics(x, 64, 64, f, 0),
                              b = narrow::block_format_statistics(x, 64, 64, f, 0, 256);
  CHECK(a.elements.squared_error == b.elements.squared_error);  // MX moves with powers of two
  CHECK(a.input.amax == b.input.amax);
  CHECK(b.scales.quantile_log2(0.5) == a.scales.quantile_log2(0.5) + 8);
  CHECK_THROWS_AS(narrow::block_format_statistics(x, 64, 64, f, 0, 0), narrow::Error);
  CHECK_THROWS_AS(narrow::block_format_statistics(x, 63, 64, f, 0), narrow::Error);
}

TEST_CASE("scale: pieces merge to the whole and quantiles follow the counts") {
  const std::vector<float> x = gradients(64 * 96);
  const BlockFormat f = narrow::require_block_format("mxfp4");
  const BlockFormatStatistics whole = narrow::block_format_statistics(x, 64, 96, f, 0);
  BlockFormatStatistics sum = narrow::block_format_statistics(std::span(x).first(32 * 96), 32, 96, f, 0);
  sum.merge(narrow::block_format_statistics(std::span(x).subspan(32 * 96), 32, 96, f, 0));
  CHECK(sum.elements.underflow == whole.elements.underflow);
  CHECK(sum.scales.by_log2 == whole.scales.by_log2);
  CHECK(sum.input.amax == whole.input.amax);
  narrow::ScaleSpread s;
  s.by_log2 = {{-3, 1}, {0, 8}, {5, 1}};
  CHECK(s.quantile_log2(0) == -3);
  CHECK(s.quantile_log2(0.5) == 0);
  CHECK(s.quantile_log2(1) == 5);
}
