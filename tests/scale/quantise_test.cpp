#include "narrow/scale/quantise.hpp"

#include <doctest/doctest.h>

#include <set>

#include "block_oracle.hpp"
#include "narrow/array/pack.hpp"
#include "narrow/base/error.hpp"
#include "narrow/base/random.hpp"
#include "narrow/scale/e8m0_rule.hpp"
#include "support/inputs.hpp"
#include "support/mismatches.hpp"
#include "support/scale.hpp"

using narrow::BlockFormat;
using narrow::quantise;
using narrow::Quantised;
using test::float_inf;

namespace {

// Every row with every rule it takes.
struct NamedFormat {
  std::string name;
  BlockFormat format;
};
std::vector<NamedFormat> all_formats() {
  std::vector<NamedFormat> list;
  for (const narrow::BlockFormatRow& row : narrow::block_format_table())
    for (const std::string_view rule : narrow::rules_for(row.format)) {
      const std::string name = std::string(row.name) + ":" + std::string(rule);
      list.push_back({name, narrow::require_block_format(name)});
    }
  for (const char* name : {"bfp4x16", "bfp2x3", "bfp7x5000"})
    list.push_back({name, narrow::require_block_format(name)});
  return list;
}

// Kinds of data that blocks meet: any floats, gradients, ties, with specials and zeros between.
std::vector<float> make_data(std::size_t n, std::uint64_t seed) {
  std::vector<float> data(n);
  const float specials[] = {0,         -0.0f,      float_inf, -float_inf,     std::nanf(""), -std::nanf(""),
                            0x1p-149f, -0x1p-149f, 0x1p-127f, 0x1.fffffep127f};
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t r = test::mix(seed * 1000003 + i), kind = test::mix(seed * 77 + i / 40) % 8;
    const auto exponent = static_cast<int>(r >> 20 & 15) - 12;
    if (kind == 0) data[i] = test::from_bits<float>(r >> 32);
    else if (kind == 1) data[i] = 0;
    else if (kind == 2) data[i] = r % 50 == 0 ? specials[r / 50 % 10] : std::ldexp(1.0f, exponent);
    else if (kind == 3) data[i] = static_cast<float>(static_cast<int>(r >> 40 & 31) - 16) * 0.25f;  // ties of E2M1
    else if (kind == 4) data[i] = std::ldexp(static_cast<float>(static_cast<int>(r >> 32 & 0xFFFF) - 32768), -140);
    else data[i] = std::ldexp(static_cast<float>(static_cast<std::int32_t>(r >> 32)), exponent - 31);
  }
  return data;
}

std::string first_difference(const Quantised& a, const std::vector<std::uint8_t>& codes,
                             const std::vector<float>& scales) {
  for (std::size_t i = 0; i < codes.size(); ++i)
    if (a.codes[i] != codes[i])
      return "code " + std::to_string(i) + ": " + std::to_string(a.codes[i]) + " and " + std::to_string(codes[i]);
  for (std::size_t i = 0; i < scales.size(); ++i)
    if (test::bits(a.scales[i]) != test::bits(scales[i])) return "scale " + std::to_string(i);
  return "";
}

Quantised plainly(const std::vector<float>& data, std::size_t rows, std::size_t cols, const BlockFormat& f) {
  Quantised q{f, rows, cols, std::vector<std::uint8_t>(data.size()), {}, 1};
  q.scales.resize(narrow::grid_rows(f, rows) * narrow::grid_cols(f, cols));
  narrow::quantise_plainly(data, rows, cols, f, f.needs_tensor_amax() ? narrow::tensor_amax(data, f) : 0, q.codes,
                           q.scales);
  return q;
}

}  // namespace

TEST_CASE("scale: the array functions give the bits of the plain definition for every format and rule") {
  struct Shape {
    std::size_t rows, cols;
  };
  for (const NamedFormat& format : all_formats())
    for (const Shape s : {Shape{1, 1}, {1, 31}, {3, 33}, {5, 64}, {7, 48}, {37, 129}, {1, 9000}, {2, 8224}, {130, 200}})
      for (const bool finite : {false, true}) {  // without Inf and NaN whole runs of blocks go through lanes
        const std::string& name = format.name;
        const BlockFormat& f = format.format;
        CAPTURE(name);
        CAPTURE(s.cols);
        CAPTURE(finite);
        std::vector<float> data = make_data(s.rows * s.cols, s.cols);
        for (float& x : data)
          if (finite && !std::isfinite(x)) x = 0.25f;
        const Quantised fast = quantise(data, s.rows, s.cols, f), slow = plainly(data, s.rows, s.cols, f);
        CHECK(first_difference(fast, slow.codes, slow.scales) == "");
      }
}

// The oracle's own quantisation, block by block, for every MX format and rule: special blocks included.
TEST_CASE("scale: MX blocks are those of the oracle") {
  test::Mismatches wrong;
  for (const NamedFormat& format : all_formats()) {
    const std::string& name = format.name;
    const BlockFormat& f = format.format;
    if (f.scale.width() != 8 || f.scale.has_sign) continue;
    const narrow::Cast cast = narrow::element_cast(f);
    const std::size_t blocks = test::scaled(150), size = std::min<std::size_t>(f.block_cols, 32);
    for (std::size_t b = 0; b < blocks; ++b) {
      const std::vector<float> x = make_data(size, b + 17);
      const Quantised q = quantise(x, 1, size, f, 1);
      float amax = 0;
      bool has_nan = false;
      for (const float v : x) {
        has_nan |= std::isnan(v);
        if (std::abs(v) > amax) amax = std::abs(v);
      }
      if (q.scales.size() != 1) continue;  // bfp2x3: other blocks than this loop's
      const int e = test::oracle_exponent(amax, has_nan, f.element, f.rule);
      const bool same_scale =
          e == test::nan_exponent ? std::isnan(q.scales[0]) : static_cast<double>(q.scales[0]) == std::ldexp(1.0, e);
      if (!same_scale) wrong.add([&] { return name + ": scale of block " + std::to_string(b); });
      for (std::size_t i = 0; i < size; ++i) {
        const std::uint8_t expected = test::oracle_element(x[i], e, f.element, cast, f.rule);
        if (q.codes[i] != expected)
          wrong.add([&] {
            return name + ": " + test::hex_float(static_cast<double>(x[i])) + " / 2^" + std::to_string(e) + ": " +
                   test::hex(q.codes[i]) + ", expected " + test::hex(expected);
          });
      }
    }
  }
  wrong.require_none("MX blocks");
}

// Ties of E2M1 at scale 1 (amax 6 makes the scale 2^(2 - 2)): to even, and toward zero under DeepGEMM's rule.
TEST_CASE("scale: ties of E2M1 go to even and toward zero for DeepGEMM") {
  const std::vector<float> x = {6, 0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5, -0.25f, -5};
  const auto values = [&](const char* name) {
    return narrow::dequantise(quantise(x, 1, x.size(), narrow::require_block_format(name)));
  };
  CHECK(values("mxfp4") == std::vector<float>{6, 0, 1, 1, 2, 2, 4, 4, -0.0f, -4});
  CHECK(values("mxfp4:deepgemm") == std::vector<float>{6, 0, 0.5f, 1, 1.5f, 2, 3, 4, -0.0f, -4});
}

TEST_CASE("scale: MXINT8 is even: the lowest code is not used") {
  const std::vector<float> x = {-1.999f, 1.999f, 1, -1, 0.0078125f, 0};
  const Quantised q = quantise(x, 1, x.size(), narrow::require_block_format("mxint8"));
  CHECK(q.scales[0] == 1);
  CHECK(q.codes == std::vector<std::uint8_t>{0x81, 0x7F, 64, 0xC0, 0, 0});  // 0.5 of a quantum is a tie to even
}

TEST_CASE("scale: special blocks decode as their rule says") {
  constexpr float nan_value = test::nan_value;
  const auto decoded = [](const std::vector<float>& x, const char* name) {
    return narrow::dequantise(quantise(x, 1, x.size(), narrow::require_block_format(name)));
  };
  // Zeros: the smallest scale, and zeros with their signs.
  CHECK(test::bits(decoded({0, -0.0f}, "mxfp8_e4m3")[1]) == test::bits(-0.0f));
  // One NaN: torch's amax is NaN and takes the block with it; CUDA's maximum drops it and keeps the others.
  for (const float v : decoded({1, nan_value, 2}, "mxfp8_e4m3:torchao_ceil")) CHECK(std::isnan(v));
  const std::vector<float> kept = decoded({1, nan_value, 2}, "mxfp8_e4m3:cuda_round_up");
  CHECK(kept[0] == 1);
  CHECK(std::isnan(kept[1]));
  CHECK(kept[2] == 2);
  // Inf: NaN for torchao; TransformerEngine has the scale 2^127 and saturates.
  for (const float v : decoded({1, float_inf}, "mxfp8_e4m3:torchao_rceil")) CHECK(std::isnan(v));
  const std::vector<float> top = decoded({1, float_inf}, "mxfp8_e4m3:cuda_round_up");
  CHECK(top[0] == 0);
  CHECK(std::isinf(top[1]));  // 448 * 2^127
  // Blocks far below every normal float still decode exactly.
  CHECK(decoded({0x1p-149f, -0x1p-140f}, "mxfp8_e5m2")[1] == -0x1p-140f);
}

// For a power of two S, quantising x * S and dividing by S is quantising x, as long as nothing leaves the ranges.
TEST_CASE("scale: power-of-two scales move through the E8M0 formats") {
  for (const NamedFormat& format : all_formats()) {
    const std::string& name = format.name;
    const BlockFormat& f = format.format;
    const bool absolute = f.rule == narrow::ScaleRule::deepgemm;  // its least amax is absolute
    if (f.scale.has_sign || absolute) continue;
    CAPTURE(name);
    std::vector<float> x(96);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] =
          std::ldexp(static_cast<float>(static_cast<std::int32_t>(test::mix(i) >> 32)), static_cast<int>(i % 7) - 31);
    const Quantised plain = quantise(x, 3, 32, f);
    for (const int shift : {-60, -9, 1, 40}) {
      std::vector<float> moved(x);
      for (float& v : moved) v = std::ldexp(v, shift);
      const Quantised q = quantise(moved, 3, 32, f);
      CHECK(q.codes == plain.codes);
      for (std::size_t b = 0; b < q.scales.size(); ++b) CHECK(q.scales[b] == std::ldexp(plain.scales[b], shift));
    }
  }
}

TEST_CASE("scale: what dequantises quantises to itself") {
  for (const char* name : {"mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4", "mxint8", "bfp4x16"}) {
    CAPTURE(name);
    const BlockFormat f = narrow::require_block_format(name);
    std::vector<float> x = make_data(40 * 32, 5);
    for (float& v : x)
      if (!std::isfinite(v)) v = 1;
    const std::vector<float> once = narrow::dequantise(quantise(x, 40, 32, f));
    const std::vector<float> twice = narrow::dequantise(quantise(once, 40, 32, f));
    std::size_t differ = 0;
    for (std::size_t i = 0; i < once.size(); ++i) differ += test::bits(once[i]) != test::bits(twice[i]) ? 1 : 0;
    CHECK(differ == 0);
  }
}

TEST_CASE("scale: pieces of whole blocks give the bits of the whole") {
  for (const char* name : {"mxfp8_e4m3", "nvfp4", "fp8_128x128", "fp8_tensor_e4m3", "fp8_row_e5m2"}) {
    CAPTURE(name);
    const BlockFormat f = narrow::require_block_format(name);
    const std::size_t rows = 256, cols = 160, half = 128;
    const std::vector<float> x = make_data(rows * cols, 9);
    const Quantised whole = quantise(x, rows, cols, f);
    const float amax = narrow::tensor_amax(x, f);
    std::vector<std::uint8_t> codes(x.size());
    std::vector<float> scales(whole.scales.size());
    const std::size_t grid = narrow::grid_rows(f, half) * narrow::grid_cols(f, cols);
    for (std::size_t part = 0; part < 2; ++part) {
      const std::size_t at = part * half * cols;
      narrow::quantise_into(std::span(x).subspan(at, half * cols), half, cols, f, amax,
                            std::span(codes).subspan(at, half * cols),
                            std::span(scales).subspan(f.block_rows == 0 ? 0 : part * grid, grid));
    }
    CHECK(first_difference(whole, codes, scales) == "");
  }
}

TEST_CASE("scale: stochastic elements are one of two neighbours, and right on average") {
  constexpr std::size_t rows = 5, cols = 40;
  constexpr std::uint64_t draws = 1000;
  std::vector<float> data(rows * cols);
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<float>(static_cast<std::int64_t>(narrow::random_bits(7, i) % 2001) - 1000) / 500;
  for (const char* name : {"nvfp4", "nvfp4_16x16", "mxfp4", "mxfp8_e4m3"}) {
    CAPTURE(std::string(name));
    const BlockFormat f = narrow::require_block_format(name);
    const Quantised nearest = quantise(data, rows, cols, f);
    const std::vector<float> closest = narrow::dequantise(nearest);
    std::vector<double> sum(data.size());
    std::vector<std::set<float>> seen(data.size());
    for (std::uint64_t seed = 0; seed < draws; ++seed) {
      const Quantised q = narrow::quantise_stochastically(data, rows, cols, f, seed, 1);
      REQUIRE(q.scales == nearest.scales);
      if (seed < 3) REQUIRE(narrow::quantise_stochastically(data, rows, cols, f, seed, 3).codes == q.codes);
      const std::vector<float> values = narrow::dequantise(q);
      for (std::size_t i = 0; i < values.size(); ++i)
        sum[i] += static_cast<double>(values[i]), seen[i].insert(values[i]);
    }
    std::size_t between = 0;
    for (std::size_t i = 0; i < data.size(); ++i) {
      const double x = static_cast<double>(data[i]), low = static_cast<double>(*seen[i].begin()),
                   high = static_cast<double>(*seen[i].rbegin());
      CHECK(seen[i].size() <= 2);
      CHECK(seen[i].count(closest[i]) == 1);
      if (x < low || x > high) continue;  // beyond the largest element
      ++between;
      // Five deviations of the mean of draws that are one of two values.
      CHECK(std::abs(sum[i] / static_cast<double>(draws) - x) <=
            5 * (high - low) * 0.5 / std::sqrt(static_cast<double>(draws)));
    }
    CHECK(between >= data.size() * 7 / 10);
  }
}

TEST_CASE("scale: packed codes and scale codes come back") {
  const BlockFormat f = narrow::require_block_format("mxfp6_e2m3");
  const std::vector<float> x = make_data(101, 3);
  const Quantised q = quantise(x, 1, x.size(), f);
  const std::vector<std::uint8_t> packed = narrow::packed_codes(q.codes, f), codes = narrow::scale_codes(q.scales, f);
  CHECK(packed.size() == 76);  // 101 * 6 bits
  std::vector<std::uint8_t> back(q.codes.size());
  narrow::unpack_codes(packed, 6, back);
  CHECK(back == q.codes);
  for (std::size_t b = 0; b < codes.size(); ++b)
    CHECK(test::bits(narrow::e8m0_value(codes[b])) == test::bits(q.scales[b]));
  CHECK_THROWS_AS(narrow::scale_codes(q.scales, narrow::require_block_format("fp8_1x128")), narrow::Error);
}

TEST_CASE("scale: sizes that do not fit are refused") {
  const BlockFormat f = narrow::require_block_format("mxfp8_e4m3");
  const std::vector<float> x(10);
  std::vector<std::uint8_t> codes(10);
  std::vector<float> scales(1);
  CHECK_THROWS_AS(quantise(x, 3, 4, f), narrow::Error);
  CHECK_THROWS_AS(quantise(x, 1, 0, f), narrow::Error);
  CHECK_THROWS_AS(narrow::quantise_into(x, 2, 5, f, 0, codes, scales), narrow::Error);  // two blocks
  CHECK_THROWS_AS(narrow::quantise_into(x, 1, 10, f, 0, std::span(codes).first(9), scales), narrow::Error);
  std::vector<float> shared(64);
  const std::span<std::uint8_t> over(reinterpret_cast<std::uint8_t*>(shared.data()), 64);
  CHECK_THROWS_AS(narrow::quantise_into(shared, 1, 64, f, 0, over, std::span(shared).first(2)), narrow::Error);
  CHECK_THROWS_AS(narrow::dequantise_into(over, std::vector<float>(2), 1, 1, 64, f, shared), narrow::Error);
  CHECK(quantise({}, 0, 0, f).codes.empty());
  CHECK(quantise({}, 0, 7, f).scales.empty());
}
