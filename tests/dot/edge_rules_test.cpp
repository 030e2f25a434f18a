// The rules at the edges, each from a probe that was run on the silicon; expected codes computed by hand.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "dot/named_model.hpp"
#include "narrow/dot/dot.hpp"
#include "support/oracle.hpp"

using narrow::Code;
using narrow::DotModel;

namespace {

double p2(int exponent) { return std::ldexp(1.0, exponent); }

// The code of a value that the format holds (a zero keeps its sign).
Code code(double value, const narrow::Format& f) {
  const Code c = oracle::round(value, f);
  if (std::isfinite(value)) REQUIRE(oracle::value_of(c, f).exact() == oracle::from_double(value));
  return c;
}

struct Product {
  double a, b;
};
using Products = std::vector<Product>;

// The dot product of these products and c; `at` moves them to later places of the step, the others are 0 * 0.
Code probe(const std::string& name, const Products& products, double c = 0, std::size_t at = 0) {
  const DotModel& m = model(name);
  const std::size_t k = std::max<std::size_t>(static_cast<std::size_t>(m.instruction_k), products.size());
  std::vector<Code> a(k, 0), b(k, 0);
  for (std::size_t i = 0; i < products.size(); ++i) {
    a[(i + at) % k] = code(products[i].a, m.a.format);
    b[(i + at) % k] = code(products[i].b, m.b.format);
  }
  return narrow::dot(m, a, b, code(c, m.accumulator.format));
}

// On codes, for what no value says.
Code probe_codes(const std::string& name, std::vector<Code> a, std::vector<Code> b, Code c) {
  const auto k = static_cast<std::size_t>(model(name).instruction_k);
  a.resize(std::max(a.size(), k), 0), b.resize(std::max(b.size(), k), 0);
  return narrow::dot(model(name), a, b, c);
}

Code f32(double value) { return std::bit_cast<std::uint32_t>(static_cast<float>(value)); }

const std::vector<std::string> bf16_and_tf32 = {"hopper.mma.f32.bf16.bf16.k16", "hopper.wgmma.f32.bf16.bf16",
                                                "hopper.mma.f32.tf32.tf32.k8", "hopper.mma.f32.tf32.tf32.k4",
                                                "hopper.wgmma.f32.tf32.tf32"};
const std::vector<std::string> fp16_to_fp16 = {"hopper.mma.f16.f16.f16.k16", "hopper.wgmma.f16.f16.f16"};
const std::vector<std::string> fp16_to_fp32 = {"hopper.mma.f32.f16.f16.k16", "hopper.mma.f32.f16.f16.k8",
                                               "hopper.wgmma.f32.f16.f16"};

}  // namespace

TEST_CASE("dot: the largest exponent counts as at least -133 with an FP32 accumulator") {
  for (const std::string& name : bf16_and_tf32)
    for (int k = 150; k <= 176; ++k) {
      CAPTURE(name);
      CAPTURE(k);
      const Products pair = {{p2(-74), p2(-75)}, {-p2(-75), p2(-(k - 75))}};  // 2^-149 - 2^-k
      CHECK(probe(name, pair) == (k <= 158 ? 0u : 1u));
      CHECK(probe(name, pair, -0.0) == (k <= 158 ? 0u : 1u));
    }
}

TEST_CASE("dot: the floor also holds where zero products have huge partners") {
  for (int k = 150; k <= 176; ++k)
    for (const double partner : {1.0, p2(127)})
      CHECK(probe("hopper.mma.f32.bf16.bf16.k16",
                  {{p2(-74), p2(-75)}, {0, partner}, {-p2(-75), p2(-(k - 75))}, {partner, 0}}) == (k <= 158 ? 0u : 1u));
}

TEST_CASE("dot: sixteen products of 2^-152 add up above the floor") {
  CHECK(probe("hopper.mma.f32.bf16.bf16.k16", Products(16, {p2(-76), p2(-76)})) == 2);  // 2^-148
  CHECK(probe("hopper.wgmma.f32.bf16.bf16", Products(16, {p2(-76), p2(-76)})) == 2);
}

TEST_CASE("dot: a subnormal FP32 addend counts with exponent -126") {
  for (const std::string& name : bf16_and_tf32)
    for (int k = 150; k <= 176; ++k) CHECK(probe(name, {{-p2(-75), p2(-(k - 75))}}, p2(-149)) == (k <= 151 ? 0u : 1u));
}

TEST_CASE("dot: the largest exponent counts as at least -21 with an FP16 accumulator") {
  for (const std::string& name : fp16_to_fp16)
    for (int k = 26; k <= 48; ++k) {
      CAPTURE(name);
      CAPTURE(k);
      // 2^-25 is a tie of 0 and 2^-24; whatever is left of 2^-k decides it
      CHECK(probe(name, {{p2(-12), p2(-13)}, {p2(-24), p2(-(k - 24))}}) == (k <= 46 ? 1u : 0u));
    }
}

TEST_CASE("dot: a subnormal FP16 addend counts with exponent -14") {
  for (const std::string& name : fp16_to_fp16)
    for (int k = 26; k <= 48; ++k)
      CHECK(probe(name, {{p2(-12), p2(-13)}, {p2(-24), p2(-(k - 24))}}, p2(-23)) == (k <= 39 ? 3u : 2u));
}

TEST_CASE("dot: E5M2 products under an FP16 accumulator stay above the floor, and meet a subnormal addend at -14") {
  for (int k = 26; k <= 32; ++k) {
    const Products pair = {{p2(-12), p2(-13)}, {p2(-16), p2(-(k - 16))}};
    CHECK(probe("hopper.wgmma.f16.e5m2.e5m2", pair) == 1);
    CHECK(probe("hopper.wgmma.f16.e5m2.e5m2", pair, p2(-23)) == (k <= 27 ? 3u : 2u));
  }
}

TEST_CASE("dot: a zero product never raises the largest exponent") {
  for (int j = 20; j <= 31; ++j) {
    for (const std::string& name : fp16_to_fp32)
      CHECK(probe(name, {{0, p2(15)}, {p2(-12), p2(-(j - 12))}}) == f32(p2(-j)));
    for (const std::string& name : bf16_and_tf32) {
      CHECK(probe(name, {{0, p2(127)}, {p2(-12), p2(-(j - 12))}}) == f32(p2(-j)));
      CHECK(probe(name, {{p2(-12), p2(-(j - 12))}, {p2(127), -0.0}}) == f32(p2(-j)));
    }
  }
  for (int j = 8; j <= 18; ++j)
    CHECK(probe("hopper.wgmma.f32.e5m2.e5m2", {{0, p2(15)}, {p2(-4), p2(-(j - 4))}}) == f32(p2(-j)));
  for (int j = 8; j <= 15; ++j)
    CHECK(probe("hopper.wgmma.f32.e4m3.e4m3", {{0, p2(8)}, {p2(-6), p2(-(j - 6))}}) == f32(p2(-j)));
}

TEST_CASE("dot: a subnormal factor keeps its raw exponent") {
  for (const std::string& name : fp16_to_fp32) {
    // 2^-24 counts as 2^-14: the product with 2^15 counts as exponent 1
    CHECK(probe(name, {{p2(-24), p2(15)}, {p2(-12), p2(-13)}}) == f32(p2(-9)));
    for (int j = 20; j <= 34; ++j)
      CHECK(probe(name, {{p2(-24), p2(15)}, {-p2(-24), p2(15)}, {p2(-12), p2(-(j - 12))}}) ==
            (j <= 24 ? f32(p2(-j)) : 0));
  }
}

TEST_CASE("dot: the last bit kept lies F below the largest exponent, wherever the terms stand") {
  struct Ladder {
    std::string name;
    int kept;
  };
  const Ladder ladders[] = {{"hopper.mma.f32.f16.f16.k16", 25},  {"hopper.mma.f32.bf16.bf16.k16", 25},
                            {"hopper.mma.f32.tf32.tf32.k8", 25}, {"hopper.wgmma.f32.f16.f16", 25},
                            {"hopper.wgmma.f32.e4m3.e4m3", 13},  {"hopper.wgmma.f32.e5m2.e5m2", 13},
                            {"ampere.mma.f32.f16.f16.k8", 24},   {"ampere.mma.f32.tf32.tf32.k4", 24},
                            {"ada.mma.f32.e4m3.e4m3.k16", 13},   {"volta.mma.f32.f16.f16.k4", 23}};
  for (const auto& [name, kept] : ladders)
    for (int j = 8; j <= (kept == 13 ? 15 : 30); ++j)
      for (std::size_t at = 0; at < static_cast<std::size_t>(model(name).products_per_step); ++at) {
        CAPTURE(name);
        CAPTURE(j);
        CAPTURE(at);
        const double small_a = p2(-j / 2), small_b = p2(-(j - j / 2));
        const Code expected = j <= kept ? f32(p2(-j)) : 0;
        CHECK(probe(name, {{1, 1}, {-1, 1}, {small_a, small_b}}, 0, at) == expected);
        CHECK(probe(name, {{1, 1}, {-1, 1}}, p2(-j), at) == expected);
        CHECK(probe(name, {{-1, 1}, {small_a, small_b}}, 1, at) == expected);
      }
}

TEST_CASE("dot: bits below are cut from the magnitude, toward zero") {
  for (const std::string& name : fp16_to_fp32) {
    CHECK(probe(name, {{1, 1}, {-1, 1}, {-1.5 * p2(-12), p2(-13)}}) == f32(-p2(-25)));
    CHECK(probe(name, {{1, 1}, {-1, 1}, {1.5 * p2(-12), p2(-13)}}) == f32(p2(-25)));
    CHECK(probe(name, {{1, 1}, {-1, 1}}, -1.5 * p2(-25)) == f32(-p2(-25)));
  }
  CHECK(probe("hopper.wgmma.f32.e4m3.e4m3", {{1, 1}, {-1, 1}, {-1.5 * p2(-6), p2(-7)}}) == f32(-p2(-13)));
  CHECK(probe("hopper.wgmma.f32.e4m3.e4m3", {{1, 1}, {-1, 1}}, -1.5 * p2(-13)) == f32(-p2(-13)));
}

TEST_CASE("dot: the exponent of a product is the sum of the factors', not normalised") {
  for (const std::string& name : fp16_to_fp32)
    CHECK(probe(name, {{1.5, 1.5}, {-1.5, 1.5}, {p2(-12), p2(-13)}}) == f32(p2(-25)));
}

TEST_CASE("dot: an FP32 result is cut toward zero") {
  for (const std::string& name : fp16_to_fp32) {
    CHECK(probe(name, {{1, 1}, {p2(-12), p2(-12)}, {p2(-12), p2(-13)}}) == 0x3F800000);
    CHECK(probe(name, {{-1, 1}, {-p2(-12), p2(-12)}, {-p2(-12), p2(-13)}}) == 0xBF800000);
  }
}

TEST_CASE("dot: Hopper's FP8 result has 13 fraction bits, cut toward zero") {
  CHECK(probe("hopper.wgmma.f32.e4m3.e4m3", {{1.5, 1.5}, {1.5 * p2(-6), p2(-6)}}) == 0x40100400);
  CHECK(probe("hopper.wgmma.f32.e4m3.e4m3", {{-1.5, 1.5}, {-1.5 * p2(-6), p2(-6)}}) == 0xC0100400);
  for (const std::string name :
       {"hopper.wgmma.f32.e4m3.e4m3", "hopper.wgmma.f32.e5m2.e5m2", "hopper.wgmma.f32.e4m3.e5m2"}) {
    CHECK(probe_codes(name, {}, {}, 0x3F800001) == 0x3F800000);
    CHECK(probe_codes(name, {}, {}, 0x7F7FFFFF) == 0x7F7FFC00);
    CHECK(probe_codes(name, {}, {}, f32(p2(-149))) == 0);
    CHECK(probe_codes(name, {}, {}, f32(p2(-140))) == 0);
    CHECK(probe_codes(name, {}, {}, f32(p2(-139))) == 0x00000400);
  }
}

TEST_CASE("dot: chained steps of Hopper's FP8 round in between") {
  const DotModel& m = model("hopper.wgmma.f32.e4m3.e4m3");
  const auto e4m3 = [&](double x) { return code(x, m.a.format); };
  std::vector<Code> a(64, 0), b(64, 0);
  a[0] = e4m3(1.5), b[0] = e4m3(1.5), a[1] = e4m3(1.5 * p2(-6)),
  b[1] = e4m3(p2(-6));  // 2.25 + 3 * 2^-13, one bit too many
  a[32] = e4m3(-1.5), b[32] = e4m3(1.5);
  CHECK(narrow::dot(m, a, b, 0) == f32(p2(-12)));
}

TEST_CASE("dot: an FP16 result is rounded once, straight from the sum") {
  for (const std::string& name : fp16_to_fp16)  // 1 + 2^-11 + 2^-24: through FP32 it would lie on a tie
    CHECK(probe(name, {{0.5, 1}, {0.5, 1}, {0.5, p2(-10)}, {0.5, p2(-23)}}) == 0x3C01);
}

TEST_CASE("dot: overflow") {
  const float max = std::bit_cast<float>(0x7F7FFFFFu);
  for (const std::string name : {"hopper.mma.f32.bf16.bf16.k16", "hopper.wgmma.f32.bf16.bf16"}) {
    CHECK(probe(name, {{0.75, p2(127)}, {0.75, p2(127)}}, 0.25 * static_cast<double>(max)) == 0x7F7FFFFF);
    CHECK(probe(name, {{1, p2(127)}, {1, p2(127)}}) == 0x7F800000);
    CHECK(probe(name, {{-1, p2(127)}, {1, p2(127)}, {-2, p2(127)}}) == 0xFF800000);
  }
  for (const std::string& name : fp16_to_fp16) {
    CHECK(probe(name, {{0.25, 32}}, 65504) == 0x7BFF);
    CHECK(probe(name, {{0.5, 32}}, 65504) == 0x7C00);
    CHECK(probe(name, {{-0.5, 32}}, -65504) == 0xFC00);
  }
}

TEST_CASE("dot: products beyond 2^128 stay finite inside the sum") {
  for (const std::string& name : bf16_and_tf32) {
    CHECK(probe(name, {{p2(127), p2(127)}, {-p2(127), p2(127)}}, 1) == 0);
    CHECK(probe(name, {{p2(127), 2}, {-p2(127), 2}}, 1) == 0);
    CHECK(probe(name, {{p2(127), p2(127)}}) == 0x7F800000);
    CHECK(probe(name, {{-p2(127), p2(127)}}, 1) == 0xFF800000);
  }
}

TEST_CASE("dot: the sum has room for the carries of a full step") {
  const Code big = 0x3FFF;  // 2 - 2^-10
  CHECK(probe_codes("hopper.mma.f32.f16.f16.k16", std::vector<Code>(16, big), std::vector<Code>(16, big), 0x3FFFFFFF) ==
        f32(0x1.07c002p+6));
  const Code e4m3 = 0x3F;  // 1.875
  CHECK(probe_codes("hopper.wgmma.f32.e4m3.e4m3", std::vector<Code>(32, e4m3), std::vector<Code>(32, e4m3),
                    0x3FFFFFFF) == f32(0x1.c9f8p+6));
}

TEST_CASE("dot: a zero result is +0, whatever made it") {
  for (const DotModel& m : narrow::dot_models()) {
    if (m.rule != narrow::DotRule::fused || m.generation == narrow::Generation::software) continue;
    CAPTURE(std::string(m.name.view()));
    const Code minus = Code{1} << (m.accumulator.format.width() - 1);
    const auto k = static_cast<std::size_t>(m.instruction_k);
    const std::vector<Code> minus_zeros(k, Code{1} << (m.a.format.width() - 1)), ones(k, code(1, m.b.format));
    CHECK(narrow::dot(m, minus_zeros, ones, minus) == 0);
    CHECK(narrow::dot(m, {}, {}, minus) == 0);
  }
  for (const std::string& name : bf16_and_tf32) {
    CHECK(probe(name, {{-p2(-76), p2(-76)}}) == 0);
    CHECK(probe(name, {{-p2(-76), p2(-76)}}, -0.0) == 0);
  }
  for (const std::string& name : fp16_to_fp16) {
    CHECK(probe(name, {{-p2(-13), p2(-13)}}) == 0);
    CHECK(probe(name, {{-p2(-12), p2(-13)}}) == 0);  // a tie
    CHECK(probe(name, {{-p2(-12), p2(-13)}}, -0.0) == 0);
  }
  for (const std::string& name : fp16_to_fp32) CHECK(probe(name, {{1, 1}, {-1, 1}, {-p2(-15), p2(-15)}}) == 0);
}

TEST_CASE("dot: NaN is one pattern, payload and sign dropped") {
  const std::string f32_models[] = {"hopper.mma.f32.f16.f16.k16",  "hopper.mma.f32.bf16.bf16.k16",
                                    "hopper.mma.f32.tf32.tf32.k8", "hopper.wgmma.f32.e4m3.e4m3",
                                    "hopper.wgmma.f32.e5m2.e5m2",  "hopper.mma.f32.e5m2.e5m2.k32"};
  for (const std::string& name : f32_models) {
    CAPTURE(name);
    for (const Code nan : {0x7FC01234u, 0xFFC00001u, 0x7F800001u, 0xFFFFFFFFu})
      CHECK(probe_codes(name, {}, {}, nan) == 0x7FFFFFFF);
    const auto& f = model(name).a.format;
    const Code a_nan = f.nan_code();
    CHECK(probe_codes(name, {a_nan}, {0}, 0) == 0x7FFFFFFF);
    CHECK(probe_codes(name, {0, 0}, {0, a_nan | f.sign_mask()}, 0xFF800000) == 0x7FFFFFFF);
    if (!f.has_infinity()) continue;
    const Code inf = f.infinity_code(), one = code(1, f), minus_one = code(-1, f);
    CHECK(probe_codes(name, {inf}, {0}, 0) == 0x7FFFFFFF);
    CHECK(probe_codes(name, {inf, inf}, {one, minus_one}, 0) == 0x7FFFFFFF);
    CHECK(probe_codes(name, {inf}, {one}, 0xFF800000) == 0x7FFFFFFF);
    CHECK(probe_codes(name, {inf}, {one}, 0x7F800000) == 0x7F800000);
    CHECK(probe_codes(name, {inf}, {minus_one}, 0x7F7FFFFF) == 0xFF800000);
  }
  for (const std::string& name : fp16_to_fp16) {
    CHECK(probe_codes(name, {}, {}, 0xFE01) == 0x7FFF);
    CHECK(probe_codes(name, {0x7C00}, {0x8000}, 0) == 0x7FFF);
  }
  CHECK(probe_codes("hopper.wgmma.f32.e4m3.e4m3", {0xFF}, {0x38}, 0) == 0x7FFFFFFF);
  CHECK(probe_codes("hopper.wgmma.f16.e4m3.e4m3", {0x7F}, {0x38}, 0) == 0x7FFF);
}

TEST_CASE("dot: Hopper's FP8 mma.sync leaves C to an addition of its own") {
  const std::string name = "hopper.mma.f32.e4m3.e4m3.k32";
  CHECK(probe_codes(name, {}, {}, 0x3F800001) == 0x3F800001);
  CHECK(probe(name, {{128, 128}, {0, 0}, {-128, 128}}, p2(-20)) == f32(p2(-20)));
  // 2^24 + 2 + 1 is a tie that the addition rounds up to even; a step would cut it
  CHECK(probe_codes(name, {code(1, model(name).a.format)}, {code(1, model(name).b.format)}, f32(p2(24) + 2)) ==
        f32(p2(24) + 4));
}

TEST_CASE("dot: Hopper's FP8 mma.sync takes k mod 4 in {0, 1} first, then {2, 3}") {
  const std::string name = "hopper.mma.f32.e4m3.e4m3.k32";
  CHECK(probe(name, {{128, 128}, {-128, 128}, {p2(-7), p2(-7)}}) == f32(p2(-14)));
  CHECK(probe(name, {{128, 128}, {p2(-7), p2(-7)}, {-128, 128}}) == 0);          // met in one step: lost
  CHECK(probe(name, {{p2(-7), p2(-7)}, {0, 0}, {128, 128}, {-128, 128}}) == 0);  // the first result meets them
}

TEST_CASE("dot: Hopper's FP8 mma.sync converts to FP16 first, where E4M3's subnormals have exponents of their own") {
  for (const std::string name : {"hopper.mma.f32.e4m3.e5m2.k32", "hopper.mma.f32.e4m3.e5m2.k16"})
    for (int j = 14; j <= 19; ++j)  // 2^-9 * 2^15 counts as exponent 6, not as -6 + 15: 2^-19 is the last bit kept
      CHECK(probe(name, {{p2(-9), p2(15)}, {-p2(-9), p2(15)}, {0, 0}, {0, 0}, {p2(-4), p2(-(j - 4))}}) == f32(p2(-j)));
  CHECK(probe("hopper.mma.f32.e4m3.e5m2.k32",
              {{p2(-9), p2(15)}, {-p2(-9), p2(15)}, {0, 0}, {0, 0}, {p2(-4), p2(-16)}}) == 0);
}

namespace {

// Two products, each in a block of its own, with the scales of their blocks; all others are 0 * 0.
Code scaled_pair(const std::string& name, Product first, std::array<double, 2> first_scales, Product second,
                 std::array<double, 2> second_scales) {
  const DotModel& m = model(name);
  const auto block = static_cast<std::size_t>(m.scale_block), k = static_cast<std::size_t>(m.instruction_k);
  std::vector<Code> a(k, 0), b(k, 0), sa(k / block, code(1, m.scale)), sb = sa;
  a[0] = code(first.a, m.a.format), b[0] = code(first.b, m.b.format);
  a[block] = code(second.a, m.a.format), b[block] = code(second.b, m.b.format);
  sa[0] = code(first_scales[0], m.scale), sb[0] = code(first_scales[1], m.scale);
  sa[1] = code(second_scales[0], m.scale), sb[1] = code(second_scales[1], m.scale);
  return narrow::dot_scaled(m, a, b, sa, sb, 0);
}

}  // namespace

TEST_CASE("dot: a group of FP4 products that cancel keeps the exponent of its scales") {
  for (const std::string name : {"blackwell.tcgen05.f32.e2m1.e2m1.nvf4", "rtx-blackwell.mma.f32.e2m1.e2m1.k64.nvf4"}) {
    const DotModel& m = model(name);
    const Code one = code(1, m.a.format), minus_one = code(-1, m.a.format), half = code(0.5, m.a.format);
    const Code large = code(256, m.scale), small = code(p2(-9), m.scale), unit = code(1, m.scale);
    for (const bool cancels : {true, false}) {
      std::vector<Code> a(64, 0), b(64, 0);
      if (cancels) a[0] = one, b[0] = one, a[1] = minus_one, b[1] = one;
      a[16] = half, b[16] = half;
      // 2^-2 * 2^-9 * 2^-9 beside an exponent of 8 + 8: 35 bits end at 2^-19
      CHECK(narrow::dot_scaled(m, a, b, std::vector<Code>{large, small, unit, unit},
                               std::vector<Code>{large, small, unit, unit}, 0) == (cancels ? 0 : f32(p2(-20))));
    }
  }
}

TEST_CASE("dot: a group of FP4 products counts with an exponent of at least -139") {
  for (const std::string name : {"blackwell.tcgen05.f32.e2m1.e2m1.mxf4", "rtx-blackwell.mma.f32.e2m1.e2m1.k64.mxf4"})
    for (int k = 150; k <= 200; ++k) {
      CAPTURE(k);  // 2^-149 - 2^-k: 0 while 2^-k is kept, 35 bits below 2^-139
      CHECK(scaled_pair(name, {1, 1}, {p2(-74), p2(-75)}, {-1, 1}, {p2(-75), p2(-(k - 75))}) == (k <= 174 ? 0u : 1u));
    }
}
