// NVFP4's two levels. Sources: TransformerEngine common/cast/nvfp4/core_nvfp4.cuh, dequantize_nvfp4.cuh and
// quantize_4over6_nvfp4.cuh; torchao mx_formats/nvfp4_tensor.py.
#include <doctest/doctest.h>

#include <algorithm>

#include "block_oracle.hpp"
#include "narrow/scale/block_scale.hpp"
#include "narrow/scale/quantise.hpp"
#include "support/inputs.hpp"
#include "support/mismatches.hpp"
#include "support/scale.hpp"

using narrow::BlockFormat;
using narrow::Quantised;

namespace {

const BlockFormat te = narrow::require_block_format("nvfp4:te_nvfp4");
const BlockFormat torchao = narrow::require_block_format("nvfp4:torchao_nvfp4");
constexpr float float_max = std::numeric_limits<float>::max();

float e4m3(float x) {
  const narrow::Format f = *narrow::find_format("e4m3");
  const oracle::Code code = oracle::round(x, f, {.overflow = narrow::Overflow::saturate});
  const oracle::Value v = oracle::value_of(code, f);
  return v.kind == oracle::Kind::nan ? std::nanf("") : test::to_float(v.exact());
}
std::uint8_t e2m1(float x) {
  return static_cast<std::uint8_t>(
      oracle::round(x, *narrow::find_format("e2m1"), {.overflow = narrow::Overflow::saturate}));
}

struct Expected {
  float scale;
  std::vector<std::uint8_t> codes;
  std::vector<float> values;
};

float code_value(std::uint8_t code) {  // zero keeps its sign
  const oracle::Value v = oracle::value_of(code, *narrow::find_format("e2m1"));
  return std::copysign(test::to_float(v.magnitude), v.negative ? -1.0f : 1.0f);
}

// The FP32 operations in the order in which TransformerEngine does them.
Expected expect_te(const std::vector<float>& block, float tensor_amax) {
  float amax = 0;
  for (const float v : block) amax = std::fmax(amax, std::fabs(v));
  float s_enc = std::fmin(448.0f * 6.0f / tensor_amax, float_max);
  if (tensor_amax == 0 || s_enc == 0) s_enc = 1;
  const float multiplier = s_enc * (1.0f / 6.0f);
  Expected e{e4m3(amax * multiplier), {}, {}};
  const float s_dec = 1.0f / s_enc;
  const float factor = std::fmin(1.0f / (e.scale * s_dec), float_max);
  for (const float v : block) {
    e.codes.push_back(std::isnan(v) ? 7 : e2m1(v * factor));
    const float final_scale = e.scale * tensor_amax * (1.0f / (6.0f * 448.0f));
    e.values.push_back(code_value(e.codes.back()) * final_scale);
  }
  return e;
}

Expected expect_torchao(const std::vector<float>& block, float tensor_amax) {
  float amax = 0;
  for (const float v : block) amax = std::isnan(v) || std::isnan(amax) ? std::nanf("") : std::max(amax, std::fabs(v));
  const float tensor_scale = tensor_amax / (448.0f * 6.0f);
  float wanted = amax / 6.0f / tensor_scale;
  if (wanted < 0x1p-6f) wanted = 0x1p-6f;
  if (wanted > 448.0f) wanted = 448.0f;
  Expected e{std::isnan(wanted) ? wanted : e4m3(wanted), {}, {}};
  const float factor = 1.0f / tensor_scale / e.scale;
  for (const float v : block) {
    const float scaled = v * factor;
    e.codes.push_back(std::isnan(scaled) ? 7 : e2m1(scaled));
    e.values.push_back(code_value(e.codes.back()) * (tensor_scale * e.scale));
  }
  return e;
}

}  // namespace

// A tensor of two blocks by hand. amax of the tensor 2688, so S = 1.
//   block 0: amax 2688 -> 2688 / 6 = 448 exactly; factor 1 / 448: 2688 -> 6, 1344 -> 3, 112 -> 0.25, a tie to 0
//   block 1: amax 30 -> 30 * (1/6) = 5 exactly in E4M3; factor 0.2f: 30 -> 6, 12.5 -> 2.5, a tie to 2, -17.5 -> -3.5 to
//   -4
TEST_CASE("scale: an NVFP4 example worked out by hand") {
  std::vector<float> x(32);
  x[0] = 2688, x[1] = 1344, x[2] = 112, x[3] = -224;
  x[16] = 30, x[17] = 12.5f, x[18] = -17.5f, x[19] = 2;
  const Quantised q = narrow::quantise(x, 1, 32, te);
  CHECK(q.tensor_scale == 2688);
  CHECK(q.scales == std::vector<float>{448, 5});
  CHECK(narrow::scale_codes(q.scales, te) == std::vector<std::uint8_t>{0x7E, 0x4A});
  CHECK(std::vector<std::uint8_t>(q.codes.begin(), q.codes.begin() + 5) == std::vector<std::uint8_t>{7, 5, 0, 9, 0});
  CHECK(std::vector<std::uint8_t>(q.codes.begin() + 16, q.codes.begin() + 21) ==
        std::vector<std::uint8_t>{7, 4, 14, 1, 0});
  const std::vector<float> values = narrow::dequantise(q);
  const float one_over = 1.0f / 2688.0f, unit = 448.0f * 2688.0f * one_over;  // 448 up to the rounding of 1 / 2688
  CHECK(values[0] == 6 * unit);
  CHECK(values[3] == -0.5f * unit);
  CHECK(values[17] == 2 * (5.0f * 2688.0f * one_over));
}

TEST_CASE("scale: NVFP4 of both systems equals their formulas step by step") {
  test::Mismatches wrong;
  for (std::uint64_t t = 0; t < test::scaled(400); ++t) {
    std::vector<float> x(16 * 5);
    const int spread = static_cast<int>(t % 40), centre = static_cast<int>(test::mix(t) % 200) - 120;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::uint64_t r = test::mix(t * 1000 + i);
      const int exponent = centre - static_cast<int>(test::mix(t + i / 16) % static_cast<std::uint64_t>(spread + 1));
      x[i] = std::ldexp(static_cast<float>(static_cast<std::int32_t>(r >> 32) >> (r % 28)), exponent - 31);
      if (t % 11 == 3) x[i] = static_cast<float>(static_cast<int>(r % 49) - 24) * 0.25f;  // ties of E2M1
      if (t % 13 == 5 && i / 16 == 2) x[i] = 0;
      if (t % 17 == 6 && r % 30 == 0) x[i] = std::nanf("");
      if (t % 19 == 7 && r % 60 == 0) x[i] = -test::float_inf;
    }
    for (const BlockFormat& f : {te, torchao}) {
      const bool is_te = f == te;
      const Quantised q = narrow::quantise(x, 1, x.size(), f, 1);
      std::vector<std::uint8_t> plain_codes(x.size());
      std::vector<float> plain_scales(q.scales.size());
      narrow::quantise_plainly(x, 1, x.size(), f, narrow::tensor_amax(x, f), plain_codes, plain_scales);
      bool same_plain = plain_codes == q.codes;
      for (std::size_t b = 0; b < q.scales.size(); ++b)
        same_plain = same_plain && test::bits(plain_scales[b]) == test::bits(q.scales[b]);
      if (!same_plain) wrong.add([&] { return "the plain definition of tensor " + std::to_string(t); });
      const std::vector<float> values = narrow::dequantise(q);
      float amax = 0;
      for (const float v : x)
        amax = std::isnan(v) && !is_te ? std::nanf("") : std::isnan(amax) ? amax : std::fmax(amax, std::fabs(v));
      for (std::size_t b = 0; b < 5; ++b) {
        const std::vector<float> block(x.begin() + static_cast<std::ptrdiff_t>(16 * b),
                                       x.begin() + static_cast<std::ptrdiff_t>(16 * b + 16));
        const Expected e = is_te ? expect_te(block, amax) : expect_torchao(block, amax);
        const bool same_scale = std::isnan(e.scale) ? std::isnan(q.scales[b]) : q.scales[b] == e.scale;
        if (!same_scale)
          wrong.add([&] { return "scale of tensor " + std::to_string(t) + " block " + std::to_string(b); });
        for (std::size_t i = 0; i < 16; ++i) {
          const float v = values[16 * b + i], w = e.values[i];
          const bool same = std::isnan(w) ? std::isnan(v) : test::bits(v) == test::bits(w);
          if (q.codes[16 * b + i] != e.codes[i] || !same)
            wrong.add([&] {
              return std::string(is_te ? "te" : "torchao") + " tensor " + std::to_string(t) + " element " +
                     std::to_string(16 * b + i);
            });
        }
      }
    }
  }
  wrong.require_none("NVFP4");
}

// A row is a tensor of its own, whose amax and factor are kept beside it.
TEST_CASE("scale: row-scaled NVFP4 is NVFP4 of every row") {
  const BlockFormat f = narrow::require_block_format("nvfp4:te_nvfp4_row");
  test::Mismatches wrong;
  const std::size_t rows = 67, cols = 1040;
  std::vector<float> x(rows * cols);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint64_t r = test::mix(i);
    x[i] = std::ldexp(static_cast<float>(static_cast<std::int32_t>(r >> 32) >> (r % 28)),
                      static_cast<int>(i / cols * 3 % 200) - 140);
    if (i / cols == 5) x[i] = 0;
    if (i / cols == 6 && r % 90 == 0) x[i] = std::nanf("");
    if (i / cols == 7 && r % 90 == 0) x[i] = test::float_inf;
  }
  const Quantised q = narrow::quantise(x, rows, cols, f);
  CHECK(q.codes == narrow::quantise(x, rows, cols, f, 1).codes);
  REQUIRE(q.row_scales.size() == rows);
  std::vector<std::uint8_t> plain_codes(x.size());
  std::vector<float> plain_scales(q.scales.size());
  narrow::quantise_plainly(x, rows, cols, f, 0, plain_codes, plain_scales);
  CHECK(plain_codes == q.codes);
  const std::vector<float> values = narrow::dequantise(q);
  for (std::size_t r = 0; r < rows; ++r) {
    float amax = 0;
    for (std::size_t c = 0; c < cols; ++c) amax = std::fmax(amax, std::fabs(x[r * cols + c]));
    if (q.row_scales[r] != amax) wrong.add([&] { return "amax of row " + std::to_string(r); });
    for (std::size_t b = 0; b < cols / 16; ++b) {
      const auto first = x.begin() + static_cast<std::ptrdiff_t>(r * cols + 16 * b);
      const Expected e = expect_te({first, first + 16}, amax);
      if (test::bits(q.scales[r * (cols / 16) + b]) != test::bits(e.scale) ||
          test::bits(plain_scales[r * (cols / 16) + b]) != test::bits(e.scale))
        wrong.add([&] { return "scale of row " + std::to_string(r); });
      for (std::size_t i = 0; i < 16; ++i) {
        const std::size_t at = r * cols + 16 * b + i;
        const bool same =
            std::isnan(e.values[i]) ? std::isnan(values[at]) : test::bits(values[at]) == test::bits(e.values[i]);
        if (q.codes[at] != e.codes[i] || !same) wrong.add([&] { return "element " + std::to_string(at); });
      }
    }
  }
  wrong.require_none("row-scaled NVFP4");
  // Rounded at random, each element is one of its two neighbours under the scales of its row.
  const Quantised random = narrow::quantise_stochastically(x, rows, cols, f, 3);
  CHECK(random.row_scales == q.row_scales);
  CHECK(random.codes != q.codes);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float amax = q.row_scales[i / cols];
    float s_enc = std::fmin(2688.0f / amax, float_max);
    if (amax == 0 || s_enc == 0) s_enc = 1;
    const float scaled = std::fabs(x[i] * std::fmin(1.0f / (q.scales[i / 16] * (1.0f / s_enc)), float_max));
    if (!std::isfinite(scaled)) continue;
    const float grid[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    const float *above = std::lower_bound(grid, grid + 7, scaled),
                below = *above == scaled ? scaled : above[above == grid ? 0 : -1];
    const float got = std::fabs(code_value(random.codes[i]));
    if (got != *above && got != below) wrong.add([&] { return "at random, element " + std::to_string(i); });
  }
  wrong.require_none("row-scaled NVFP4 at random");
  CHECK(narrow::rules_for(narrow::require_block_format("nvfp4_16x16")) != narrow::rules_for(f));
  CHECK_THROWS_AS(narrow::require_block_format("nvfp4_16x16:te_nvfp4_row"), narrow::Error);
  BlockFormat wide = f;
  wide.block_rows = 16;
  CHECK_THROWS_AS(narrow::quantise(x, rows, cols, wide), narrow::Error);
}

// Four over six, with blocks of so many rows of 16: the operations in the order of the kernel, whose 16 threads have a
// row each and add their sums as a warp does.
TEST_CASE("scale: NVFP4 with the better of two scales equals its formulas step by step") {
  test::Mismatches wrong;
  std::size_t fours = 0, blocks = 0;
  for (std::uint64_t t = 0; t < test::scaled(80); ++t)
    for (const char* name : {"nvfp4:te_4over6", "nvfp4:te_4over6_mse", "nvfp4_16x16:te_4over6"}) {
      const BlockFormat f = narrow::require_block_format(name);
      const bool squares = std::string_view(name).ends_with("mse");
      const std::size_t rows = t % 3 == 0 ? 32 : 19, cols = 48, high = f.block_rows;
      std::vector<float> x(rows * cols);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::uint64_t r = test::mix(t * 10000 + i);
        x[i] = std::ldexp(static_cast<float>(static_cast<std::int32_t>(r >> 32) >> (r % 5)),
                          static_cast<int>(t % 90) - 70);
        if (t % 7 == 3) x[i] = static_cast<float>(static_cast<int>(r % 49) - 24) * 0.25f;
        if (t % 11 == 5 && i % cols < 16) x[i] = 0;
        if (t % 17 == 6 && r % 300 == 0) x[i] = std::nanf("");
        if (t % 19 == 7 && r % 600 == 0) x[i] = -test::float_inf;
      }
      float amax = 0;
      for (const float v : x) amax = std::fmax(amax, std::fabs(v));
      float s_enc = std::fmin(256.0f * 6.0f / amax, float_max);
      if (amax == 0 || s_enc == 0) s_enc = 1;
      const Quantised q = narrow::quantise(x, rows, cols, f, 2);
      std::vector<std::uint8_t> plain_codes(x.size());
      std::vector<float> plain_scales(q.scales.size());
      narrow::quantise_plainly(x, rows, cols, f, narrow::tensor_amax(x, f), plain_codes, plain_scales);
      if (plain_codes != q.codes || plain_scales != q.scales)
        wrong.add([&] { return "the plain definition of " + std::to_string(t); });
      const std::vector<float> values = narrow::dequantise(q);
      for (std::size_t top = 0; top < rows; top += high)
        for (std::size_t left = 0; left < cols; left += 16) {
          const std::size_t below = std::min(top + high, rows);
          float largest = 0;
          for (std::size_t r = top; r < below; ++r)
            for (std::size_t c = left; c < left + 16; ++c) largest = std::fmax(largest, std::fabs(x[r * cols + c]));
          float scale[2], factor[2], error[2];
          for (const int which : {0, 1}) {
            scale[which] = e4m3(std::fmin(largest / 6.0f * s_enc * (which == 0 ? 1.0f : 1.5f), 448.0f));
            factor[which] = std::fmin(1.0f / (scale[which] * (1.0f / s_enc)), float_max);
            std::vector<float> sums(16);
            for (std::size_t r = top; r < below; ++r)
              for (std::size_t c = left; c < left + 16; ++c) {
                const float v = x[r * cols + c];
                const float back =
                    code_value(std::isnan(v) ? 7 : e2m1(v * factor[which])) * scale[which] * amax / 1536.0f;
                sums[r - top] += squares ? (back - v) * (back - v) : std::fabs(back - v);
              }
            for (const std::size_t half : {8, 4, 2, 1})
              for (std::size_t r = 0; r < half; ++r) sums[r] += sums[r + half];
            error[which] = sums[0];
          }
          const int better = error[1] < error[0] ? 1 : 0;
          ++blocks, fours += static_cast<std::size_t>(better);
          bool same = q.scales[top / high * 3 + left / 16] == scale[better];
          for (std::size_t r = top; r < below; ++r)
            for (std::size_t c = left; c < left + 16; ++c) {
              const std::uint8_t code = std::isnan(x[r * cols + c]) ? 7 : e2m1(x[r * cols + c] * factor[better]);
              const float value = code_value(code) * (scale[better] * amax * (1.0f / 1536.0f));
              same = same && q.codes[r * cols + c] == code &&
                     (std::isnan(value) ? std::isnan(values[r * cols + c])
                                        : test::bits(values[r * cols + c]) == test::bits(value));
            }
          if (!same)
            wrong.add([&] {
              return std::string(name) + " tensor " + std::to_string(t) + " block at " + std::to_string(top) + ", " +
                     std::to_string(left);
            });
        }
    }
  wrong.require_none("four over six");
  CHECK(fours * 10 > blocks);  // both are taken
  CHECK(fours * 10 < blocks * 9);
}

TEST_CASE("scale: NVFP4's tensor scale is one for amax zero and Inf and stays finite for tiny ones") {
  CHECK(narrow::tensor_scale(0, te).encode == 1);
  CHECK(narrow::tensor_scale(test::float_inf, te).encode == 1);
  CHECK(narrow::tensor_scale(0x1p-149f, te).encode == float_max);
  CHECK(narrow::tensor_scale(2688, te).encode == 1);
  CHECK(narrow::tensor_scale(2688, torchao).stored == 1);
}

// The two systems differ for blocks of zeros and small values: TE's scale becomes 0, torchao's stays 2^-6.
TEST_CASE("scale: small NVFP4 blocks have scale 0 in TE and 2^-6 in torchao") {
  std::vector<float> x(48);
  x[0] = 2688;
  x[16] = 0x1p-12f;  // 2^-12 / 6 rounds to 0 in E4M3
  const Quantised a = narrow::quantise(x, 1, 48, te), b = narrow::quantise(x, 1, 48, torchao);
  CHECK(a.scales == std::vector<float>{448, 0, 0});
  CHECK(b.scales == std::vector<float>{448, 0x1p-6f, 0x1p-6f});
  // TE multiplies by the largest float then, and the codes saturate; they decode to zero.
  CHECK(a.codes[16] == 7);
  CHECK(narrow::dequantise(a)[16] == 0);
  CHECK(narrow::dequantise(a)[17] == 0);
}

TEST_CASE("scale: a tensor of zeros is zeros in TE and NaN in torchao") {
  const std::vector<float> x(16);
  for (const float v : narrow::dequantise(narrow::quantise(x, 1, 16, te))) CHECK(v == 0);
  CHECK(std::isnan(narrow::quantise(x, 1, 16, torchao).scales[0]));  // 0 / 6 / 0
}

TEST_CASE("scale: NVFP4 ties are those of the reference") {
  std::vector<float> x = {6, 0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};
  for (float& v : x) v *= 448;  // S = 1 and s = 448
  const Quantised q = narrow::quantise(x, 1, x.size(), te);
  std::vector<float> got;
  for (const std::uint8_t code : q.codes) got.push_back(code_value(code));
  CHECK(got == std::vector<float>{6, 0, 1, 1, 2, 2, 4, 4});
}
