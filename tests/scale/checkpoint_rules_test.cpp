// The rules by which compressed-tensors, ModelOpt and torchao (one level) write checkpoints, FP32 operation by FP32
// operation in the order of their sources: compressed-tensors quantization/utils/helpers.py (calculate_qparams,
// generate_gparam) and lifecycle/forward_helpers.py; ModelOpt quantization/qtensor/nvfp4_tensor.py; torchao
// mx_formats/nvfp4_tensor.py.
#include <doctest/doctest.h>

#include <functional>

#include "block_oracle.hpp"
#include "narrow/scale/quantise.hpp"
#include "support/inputs.hpp"
#include "support/mismatches.hpp"
#include "support/scale.hpp"

using narrow::BlockFormat;
using narrow::Quantised;
using narrow::require_block_format;

namespace {

using Codes = std::vector<std::uint8_t>;

std::uint8_t code_in(const char* format, float x) {
  const narrow::Format f = *narrow::find_format(format);
  return static_cast<std::uint8_t>(oracle::round(x, f, {.overflow = narrow::Overflow::saturate}));
}
float value_in(const char* format, std::uint8_t code) {
  const oracle::Value v = oracle::value_of(code, *narrow::find_format(format));
  if (v.kind == oracle::Kind::nan) return test::nan_value;
  return std::copysign(test::to_float(v.magnitude), v.negative ? -1.0f : 1.0f);
}
float rounded_in(const char* format, float x) { return value_in(format, code_in(format, x)); }

// As torch.clamp: NaN stays.
float clamped(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

float amax_of(std::span<const float> x) {
  float amax = 0;
  for (const float v : x) {
    if (std::isnan(v)) return test::nan_value;
    amax = std::max(amax, std::abs(v));
  }
  return amax;
}

// One row of one system: what it keeps of the tensor, the scale of a block, and the divisor of its elements.
struct System {
  const char* name;
  const char* element;
  std::size_t block;  // 0: a row
  std::function<float(float)> of_tensor;
  std::function<float(float, float)> scale;    // of a block's amax and what is kept of the tensor
  std::function<float(float, float)> divisor;  // of scale and tensor
  bool divides = true;                         // else elements are multiplied by its inverse
};

float one(float) { return 1; }
float own(float scale, float) { return scale; }

const System systems[] = {
    {"nvfp4:ct_nvfp4", "e2m1", 16,
     [](float amax) {
       const float g = 2688.0f / (std::isnan(amax) ? amax : std::max(amax, 0x1p-126f));
       return std::isfinite(g) ? g : 1.0f;
     },
     [](float amax, float g) {
       const float s = rounded_in("e4m3", clamped(g * (amax / 6.0f), -448, 448));
       return s == 0 ? 0.125f : s;
     },
     [](float s, float g) { return s / g; }},
    {"nvfp4:modelopt_nvfp4", "e2m1", 16, [](float amax) { return amax / 2688.0f; },
     [](float amax, float t) {
       const float s = amax / (6.0f * t);
       return rounded_in("e4m3", clamped(s == 0 ? 1.0f : s, 0x1p-9f, 448));
     },
     [](float s, float t) { return s * t; }},
    {"nvfp4:nvfp4_single", "e2m1", 16, one,
     [](float amax, float) { return rounded_in("e4m3", clamped(amax / 6.0f, 0x1p-6f, 448)); }, own, false},
    {"fp8_1x128:ct_fp8", "e4m3", 128, one, [](float amax, float) { return amax / 448 == 0 ? 0x1p-23f : amax / 448; },
     own},
    {"fp8_row_e4m3:ct_fp8", "e4m3", 0, one, [](float amax, float) { return amax / 448 == 0 ? 0x1p-23f : amax / 448; },
     own},
    {"int8_row", "int8", 0, one, [](float amax, float) { return amax / 127.5f == 0 ? 0x1p-23f : amax / 127.5f; }, own},
    {"int4_1x32", "int4", 32, one, [](float amax, float) { return amax / 7.5f == 0 ? 0x1p-23f : amax / 7.5f; }, own},
    {"int4_1x128", "int4", 128, one, [](float amax, float) { return amax / 7.5f == 0 ? 0x1p-23f : amax / 7.5f; }, own},
};

bool same(float a, float b) { return std::isnan(a) ? std::isnan(b) : test::bits(a) == test::bits(b); }

// Weights of several sizes, ties of E2M1 and of integers, and in some tensors zeros, -0, tiny and huge values, Inf,
// NaN.
std::vector<float> make_tensor(std::size_t n, std::uint64_t t) {
  std::vector<float> x(n);
  const float specials[] = {0,         -0.0f,           0x1p-149f,    -0x1p-149f, 0x1.fffffep127f,
                            0x1p-126f, test::float_inf, std::nanf("")};
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t r = test::mix(t * 999983 + i);
    const int exponent =
        static_cast<int>(t % 5 == 4 ? r >> 8 & 255 : t % 3 * 4 + (r >> 8 & 7)) - (t % 5 == 4 ? 140 : 0);
    x[i] = std::ldexp(static_cast<float>(static_cast<int>(r >> 40 & 0xFFFF) - 32768), exponent - 15);
    if (t % 5 == 1) x[i] = static_cast<float>(static_cast<int>(r >> 40 & 63) - 32) * 0.25f;
    if (t % 7 == 3 && r % 11 == 0) x[i] = specials[r / 11 % (t % 2 == 0 ? 4 : 8)];
    if (t % 7 == 5 && i / 16 % 3 == 1) x[i] = i % 2 == 0 ? 0.0f : -0.0f;
  }
  if (t == 0) std::fill(x.begin(), x.end(), 0.0f);
  return x;
}

}  // namespace

TEST_CASE("scale: the rules of checkpoints give the bits of their sources") {
  test::Mismatches wrong;
  constexpr std::size_t rows = 3, cols = 256;
  for (const System& system : systems) {
    const BlockFormat f = require_block_format(system.name);
    for (std::uint64_t t = 0; t < test::scaled(120); ++t) {
      const std::vector<float> x = make_tensor(rows * cols, t);
      const Quantised q = narrow::quantise(x, rows, cols, f, 1);
      const std::vector<float> decoded = narrow::dequantise(q, 1);
      const float kept = system.of_tensor(amax_of(x));
      if (f.has_tensor_scale() && !same(q.tensor_scale, kept))
        wrong.add([&] { return std::string(system.name) + ": tensor " + std::to_string(t); });
      const std::size_t size = system.block == 0 ? cols : system.block;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t b = i / size;
        const float s = system.scale(amax_of(std::span(x).subspan(b * size, size)), kept);
        const float divisor = system.divisor(s, kept);
        const float scaled = system.divides ? x[i] / divisor + 0.0f : x[i] * (1.0f / divisor);
        const std::uint8_t code = code_in(system.element, std::isnan(scaled) ? test::nan_value : scaled);
        const float value = value_in(system.element, code) * divisor;
        if (!same(q.scales[b], s) || q.codes[i] != code || !same(decoded[i], value))
          wrong.add([&] {
            return std::string(system.name) + " tensor " + std::to_string(t) + " element " + std::to_string(i) + ": " +
                   test::hex_float(static_cast<double>(x[i])) + " scale " +
                   test::hex_float(static_cast<double>(q.scales[b])) + " code " + test::hex(q.codes[i]) +
                   ", expected " + test::hex_float(static_cast<double>(s)) + " " + test::hex(code);
          });
      }
    }
  }
  wrong.require_none("rules of checkpoints");
}

// Sections 2 and 3 of the layouts: one tensor with the amax 0.75 and a block with the amax 0.375 in both systems.
TEST_CASE("scale: NVFP4 of compressed-tensors and of ModelOpt are the same bits but for the factor") {
  std::vector<float> x(32);
  x[0] = 0.375f, x[1] = -0.1875f, x[2] = 0.09375f, x[3] = 0.03125f, x[16] = 0.75f;
  const Quantised ct = narrow::quantise(x, 1, 32, require_block_format("nvfp4:ct_nvfp4"));
  const Quantised modelopt = narrow::quantise(x, 1, 32, require_block_format("nvfp4:modelopt_nvfp4"));
  CHECK(ct.tensor_scale == 3584);
  CHECK(test::bits(modelopt.tensor_scale) == 0x39924925u);
  for (const Quantised& q : {ct, modelopt}) {
    CHECK(q.scales == std::vector<float>{224, 448});
    CHECK(Codes(q.codes.begin(), q.codes.begin() + 4) == Codes{7, 0xD, 3, 1});
  }
}

TEST_CASE("scale: blocks of zeros have the scale that each system writes") {
  std::vector<float> x(32);
  x[16] = 1;
  const auto scale = [&](const char* name) { return narrow::quantise(x, 1, 32, require_block_format(name)).scales[0]; };
  CHECK(scale("nvfp4:ct_nvfp4") == 0.125f);
  CHECK(scale("nvfp4:modelopt_nvfp4") == 1);
  CHECK(scale("nvfp4:nvfp4_single") == 0x1p-6f);
  x[16] = 0;
  CHECK(narrow::quantise(x, 1, 32, require_block_format("nvfp4:ct_nvfp4")).tensor_scale == 1);
  CHECK(std::isnan(scale("nvfp4:modelopt_nvfp4")));  // 0 / 0
  CHECK(scale("fp8_row_e4m3:ct_fp8") == 0x1p-23f);
  CHECK(scale("int8_tensor") == 0x1p-23f);
  CHECK(scale("mxfp4:ct_mx") == 0x1p-127f);
}

// amax / 127.5 puts the ends at +-127.5: a tie that goes to -128 below zero and is cut to 127 above it.
TEST_CASE("scale: integers of compressed-tensors reach their lowest code") {
  const std::vector<float> x = {127.5f, -127.5f, 0.5f, 1.5f, -0.5f, 2};
  const Quantised q = narrow::quantise(x, 1, x.size(), require_block_format("int8_tensor"));
  CHECK(q.scales[0] == 1);
  CHECK(q.codes == Codes{127, 0x80, 0, 2, 0, 2});
  const narrow::BlockFormatStatistics s =
      narrow::block_format_statistics(x, 1, x.size(), require_block_format("int8_tensor"));
  CHECK(s.elements.overflow == 1);
  const std::vector<float> y = {7.5f, -7.5f, 3, -0.5f};
  CHECK(narrow::quantise(y, 1, 4, require_block_format("int4_1x32")).codes == Codes{7, 8, 3, 0});
}

TEST_CASE("scale: a rule for one kind of elements is not offered to the other") {
  CHECK(narrow::find_block_format("int8_row:ct_int") == require_block_format("int8_row"));
  CHECK(narrow::find_block_format("int8_row:compressed-tensors")->rule == narrow::ScaleRule::ct_int);
  CHECK(narrow::find_block_format("fp8_row:compressed-tensors")->rule == narrow::ScaleRule::ct_fp8);
  CHECK_FALSE(narrow::find_block_format("int8_row:ct_fp8"));
  CHECK_FALSE(narrow::find_block_format("fp8_row:ct_int"));
}
