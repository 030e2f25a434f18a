// Sources: TransformerEngine common/recipe/recipe_common.cuh; torchao float8/float8_utils.py; DeepGEMM
// deep_gemm/utils/math.py.
#include "narrow/scale/tensor_scale.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "narrow/round/round_to.hpp"
#include "support/inputs.hpp"
#include "support/scale.hpp"

using test::infinity;
using test::nan_value;

namespace {
constexpr float largest_float = std::numeric_limits<float>::max();
}  // namespace

TEST_CASE("scale: current scaling is the quotient and one where there is none") {
  CHECK(narrow::te_scale(2, 448, false) == 224);
  CHECK(narrow::te_scale(3, 448, false) == 448.0f / 3.0f);
  for (const float amax : {0.0f, infinity, nan_value}) CHECK(narrow::te_scale(amax, 448, false) == 1);
  CHECK(narrow::te_scale(0x1p-149f, 448, false) == largest_float);
  CHECK(narrow::te_scale(0x1p-149f, 448, false, 0, 65504.0f) == 65504.0f);  // the largest value of an FP16 input
  CHECK(narrow::te_scale(1, 448, false, 4) == 112);                         // epsilon
  CHECK(narrow::te_scale(nan_value, 448, false, 4) == 1);
}

TEST_CASE("scale: the power-of-two option clears the mantissa and so rounds down") {
  CHECK(narrow::te_scale(3, 448, true) == 128);
  CHECK(narrow::te_scale(448, 448, true) == 1);
  CHECK(narrow::te_scale(std::nextafter(448.0f, 1000.0f), 448, true) == 0.5f);
  CHECK(narrow::te_scale(std::nextafter(448.0f, 0.0f), 448, true) == 1);
  CHECK(narrow::te_scale(0x1p-149f, 448, true) == 0x1p127f);
}

TEST_CASE("scale: torchao divides in double and floors amax at 1e-12") {
  CHECK(narrow::torchao_scale(2, 448, false) == 224);
  CHECK(narrow::torchao_scale(0, 448, false) == 4.48e14f);
  CHECK(narrow::torchao_scale(1e-13f, 448, false) == 4.48e14f);
  CHECK(narrow::torchao_scale(infinity, 448, false) == 0);
  CHECK(std::isnan(narrow::torchao_scale(nan_value, 448, false)));
  CHECK(narrow::torchao_scale(3, 448, true) == 128);
  CHECK(narrow::torchao_scale(infinity, 448, true) == 0);
  CHECK(narrow::torchao_scale(3, 57344, true) == 16384);
}

// torch.exp2(torch.floor(torch.log2(scale))): k is the largest number of floats below a power of two whose logarithm,
// in float, is that of the power. Counted with torch 2.13 on a CPU.
TEST_CASE("scale: torchao's powers of two come from a logarithm in float and can lie above the quotient") {
  CHECK(narrow::torchao_scale(0x1.c00002p+4f, 448, true) == 16);  // 448 / amax is the float below 16
  CHECK(narrow::te_scale(0x1.c00002p+4f, 448, true) == 8);
  const std::pair<int, int> rounds_up[] = {{-100, 44}, {-8, 5}, {-1, 0}, {1, 0},  {2, 0},
                                           {3, 1},     {4, 1},  {5, 2},  {16, 5}, {100, 44}};
  for (const auto& [log2, count] : rounds_up) {
    CAPTURE(log2);
    const float power = std::ldexp(1.0f, log2);
    CHECK(narrow::detail::power_of_two_by_log2(power) == power);
    CHECK(narrow::detail::power_of_two_by_log2(std::nextafter(power, infinity)) == power);
    float x = power;
    for (int i = 1; i < 100; ++i) {
      x = std::nextafter(x, 0.0f);
      CHECK(narrow::detail::power_of_two_by_log2(x) == (i <= count ? power : power / 2));
    }
  }
}

TEST_CASE("scale: deepgemm gives the decode scale with amax at least 1e-4") {
  CHECK(narrow::deepgemm_decode_scale(448, 448, false) == 1);
  CHECK(narrow::deepgemm_decode_scale(0, 448, false) == 1e-4f / 448.0f);
  CHECK(narrow::deepgemm_decode_scale(448, 448, true) == 1);
  CHECK(narrow::deepgemm_decode_scale(std::nextafter(448.0f, 500.0f), 448, true) == 2);
  CHECK(narrow::deepgemm_decode_scale(449, 448, true) == 2);
  CHECK(narrow::deepgemm_decode_scale(0, 448, true) == 0x1p-22f);  // 1e-4 / 448 = 2.23e-7, just below 2^-22
  CHECK(narrow::deepgemm_decode_scale(infinity, 448, true) == 0x1p127f);
  CHECK(narrow::deepgemm_decode_scale(nan_value, 448, true) == 0x1p127f);
  CHECK(std::isnan(narrow::deepgemm_decode_scale(nan_value, 448, false)));
}

// What the scales promise: scaled data fits, and a power of two wastes less than a factor of two.
TEST_CASE("scale: scaled amax fits the format and uses more than half of it") {
  for (std::uint64_t i = 0; i < test::scaled(20000); ++i) {
    const float amax = std::abs(test::from_bits<float>(test::mix(i) >> 32));
    if (!std::isfinite(amax) || amax < 1e-12f) continue;
    for (const float top : {448.0f, 57344.0f}) {
      const double exact = static_cast<double>(amax) * static_cast<double>(narrow::te_scale(amax, top, false));
      const double power = static_cast<double>(amax) * static_cast<double>(narrow::te_scale(amax, top, true));
      REQUIRE(exact <= static_cast<double>(top) * (1 + 0x1p-24));
      REQUIRE(power <= static_cast<double>(top) * (1 + 0x1p-24));
      REQUIRE(power * 2 > static_cast<double>(top) * (1 - 0x1p-22));
      const double decode = static_cast<double>(narrow::deepgemm_decode_scale(amax, top, true));
      if (amax > 1e-3f) REQUIRE(static_cast<double>(amax) / decode <= static_cast<double>(top));
    }
  }
}

// A format whose bias is larger by k has every limit 2^k times smaller: scaling by 2^k and back is rounding to it.
TEST_CASE("scale: a power-of-two scale shifts the limits of a format and nothing else") {
  for (const char* name : {"fp16", "e4m3", "e5m2", "e2m1", "e4m3fnuz"}) {
    const narrow::Format f = *narrow::find_format(name);
    for (const int k : {-20, -3, 1, 8, 24}) {
      narrow::Format shifted = f;
      shifted.bias += k;
      for (std::uint64_t i = 0; i < test::scaled(2000); ++i)
        for (const narrow::Overflow overflow : {narrow::Overflow::to_special, narrow::Overflow::saturate}) {
          const double x = test::spread<double>(2 * i + 1, shifted);
          const double there = std::ldexp(narrow::round_to(std::ldexp(x, k), f, {.overflow = overflow}), -k);
          const double here = narrow::round_to(x, shifted, {.overflow = overflow});
          REQUIRE(((std::isnan(there) && std::isnan(here)) || test::bits(there) == test::bits(here)));
        }
    }
  }
}

TEST_CASE("scale: immediate policies give the scale of the amax they see") {
  CHECK(scale(next(narrow::TeCurrentScaling{.fp8_max = 57344}, {}, {false, 2})) == 28672);
  CHECK(scale(next(narrow::TeBlockScaling{}, {}, {false, 3})) == 128);
  CHECK(scale(next(narrow::TorchaoScaling{}, {}, {false, 2})) == 224);
  CHECK(scale(next(narrow::DeepGemmScaling{.ue8m0 = true}, {}, {false, 449})) == 0.5f);
  CHECK(next(narrow::TorchaoScaling{}, {}, {false, infinity}).event == narrow::ScaleEvent::lost);
}
