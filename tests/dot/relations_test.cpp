// What does validate() say of a D that is not the product that was asked for?
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "dot/values.hpp"
#include "narrow/base/error.hpp"
#include "narrow/dot/likelihood.hpp"
#include "narrow/round/convert.hpp"
#include "narrow/round/round_to.hpp"
#include "support/scale.hpp"

using narrow::Code;
using narrow::parse_plan;
using narrow::ValidateRequest;
using narrow::ValidateResult;
using test::all_of;
using test::bf16;
using test::fp16;
using test::fp32;
using test::Matrix;
using test::normal;
using test::says;
using test::Values;

namespace {

double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double silu(double x) { return x / (1 + std::exp(-x)); }

}  // namespace

TEST_CASE("validate: what D is of the product is told by value and whoever summed it") {
  Values v(40, 40, 96, fp32, 0.1);
  struct Row {
    const char* relation;
    std::function<double(std::size_t, std::size_t)> value;
    bool with_c;
    const char* words;
  };
  const Row rows[] = {
      {"factor", [&](std::size_t i, std::size_t j) { return 0.125 * v.product(i, j); }, false, "2^-3 times"},
      {"factor", [&](std::size_t i, std::size_t j) { return v.product(i, j) / std::sqrt(96.0); }, false, "1/sqrt(K)"},
      {"factor", [&](std::size_t i, std::size_t j) { return 0.7312 * v.product(i, j); }, false, "0.7312 times"},
      {"factor", [&](std::size_t i, std::size_t j) { return 0.999 * v.product(i, j); }, false, "0.999 times"},
      {"factor", [&](std::size_t i, std::size_t j) { return 1.0001 * v.product(i, j); }, false, "1.0001 times"},
      {"negation", [&](std::size_t i, std::size_t j) { return -v.product(i, j); }, false, "negated"},
      {"transpose", [&](std::size_t i, std::size_t j) { return v.product(j, i); }, false, "transposed"},
      {"row shift", [&](std::size_t i, std::size_t j) { return i + 1 < 40 ? v.product(i + 1, j) : 7; }, false, "i + 1"},
      {"row shift", [&](std::size_t i, std::size_t j) { return i >= 8 ? v.product(i - 8, j) : 7; }, false, "i - 8"},
      {"column shift", [&](std::size_t i, std::size_t j) { return j + 4 < 40 ? v.product(i, j + 4) : 7; }, false, "j + 4"},
      {"row shift", [&](std::size_t i, std::size_t j) { return v.product((i + 3) % 40, j); }, false, "i + 3"},
      {"column shift", [&](std::size_t i, std::size_t j) { return v.product(i, (j + 35) % 40); }, false, "j - 5"},
      {"missing bias", [&](std::size_t i, std::size_t j) { return v.product(i, j); }, true, "C is missing"},
      {"doubled bias", [&](std::size_t i, std::size_t j) { return v.product(i, j) + 2 * v.bias(i, j); }, true, "twice"},
      {"negated bias", [&](std::size_t i, std::size_t j) { return v.product(i, j) - v.bias(i, j); }, true, "subtracted"},
      {"column bias", [&](std::size_t i, std::size_t j) { return v.product(i, j) + v.bias(0, j); }, false, "bias by column"},
      {"row bias", [&](std::size_t i, std::size_t j) { return v.product(i, j) + v.bias(i, 0); }, false, "bias by row"},
      {"constant", [&](std::size_t i, std::size_t j) { return v.product(i, j) + 2.5; }, false, "plus 2.5"},
      {"row scale", [&](std::size_t i, std::size_t j) { return v.product(i, j) * (1 + static_cast<double>(i)); }, false, "by row"},
      {"column scale", [&](std::size_t i, std::size_t j) { return v.product(i, j) * (1 + static_cast<double>(j)); }, false, "by column"},
      {"relu", [&](std::size_t i, std::size_t j) { return std::max(v.product(i, j), 0.0); }, false, "relu"},
      {"relu", [&](std::size_t i, std::size_t j) { return std::max(v.product(i, j) + v.bias(i, j), 0.0); }, true, "relu"},
      {"gelu", [&](std::size_t i, std::size_t j) { return gelu(v.product(i, j)); }, false, "gelu"},
      {"silu", [&](std::size_t i, std::size_t j) { return silu(v.product(i, j)); }, false, "silu"},
      {"leaky relu (slope 0.01)", [&](std::size_t i, std::size_t j) { return std::max(v.product(i, j), 0.01 * v.product(i, j)); }, false, "leaky"},
      {"softplus", [&](std::size_t i, std::size_t j) { return std::log1p(std::exp(v.product(i, j))); }, false, "softplus"},
      {"missing tail", [&](std::size_t i, std::size_t j) { return v.sum(i, j, 0, 80); }, false, "last 16 of 96 products"},
      {"missing head", [&](std::size_t i, std::size_t j) { return v.sum(i, j, 8, 96); }, false, "first 8 of 96 products"},
      {"zero", [&](std::size_t, std::size_t) { return 0.0; }, false, "zero"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.relation);
    CAPTURE(row.words);
    v.make(row.value);
    const ValidateResult r = narrow::validate(v.request(row.with_c));
    CAPTURE(all_of(r));
    CHECK_FALSE(r.exact);
    CHECK(r.relation == row.relation);
    REQUIRE(r.suspicions.size() == 1);
    CHECK(r.suspicions[0].find(row.words) != std::string::npos);
    CHECK(r.suspicions[0].find("split of K") == std::string::npos);
  }
}

TEST_CASE("validate: under a relation that bits can express the arithmetic is named") {
  const char *model = "hopper.wgmma.f32.f16.f16", *plan = "split:96";
  struct Row {
    const char* relation;
    std::function<void(Values&)> change;  // of a D that the model made
    bool with_c;
  };
  const auto each = [](const std::function<Code(Code)>& f) {
    return [f](Values& v) {
      for (std::size_t i = 0; i < v.rows; ++i)
        for (std::size_t j = 0; j < v.cols; ++j) v.d.set(i, j, f(v.d.get(i, j)));
    };
  };
  const auto reorder = [](const std::function<std::pair<std::size_t, std::size_t>(std::size_t, std::size_t)>& from) {
    return [from](Values& v) {
      const Matrix was = v.d;
      for (std::size_t i = 0; i < v.rows; ++i)
        for (std::size_t j = 0; j < v.cols; ++j) v.d.set(i, j, was.get(from(i, j).first, from(i, j).second));
    };
  };
  const Row rows[] = {
      {"relu", each([](Code c) { return (c & 0x80000000u) != 0 ? Code{0} : c; }), false},
      {"negation", each([](Code c) { return c ^ 0x80000000u; }), false},
      {"factor", each([](Code c) { return c + (Code{3} << 23); }), false},
      {"transpose", reorder([](std::size_t i, std::size_t j) { return std::pair(j, i); }), false},
      {"row shift", reorder([](std::size_t i, std::size_t j) { return std::pair((i + 2) % 48, j); }), false},
      {"column shift", reorder([](std::size_t i, std::size_t j) { return std::pair(i, (j + 46) % 48); }), false},
      {"missing bias", [](Values&) {}, true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.relation);
    Values v(48, 48, 256);
    v.make_by(model, plan);
    row.change(v);
    const ValidateResult r = narrow::validate(v.request(row.with_c));
    CAPTURE(all_of(r));
    CHECK_FALSE(r.exact);
    CHECK(r.relation == row.relation);
    CHECK(says(r, "gives every bit"));
    CHECK(r.candidates.at(0).plan == parse_plan(plan));
    CHECK(narrow::same_arithmetic(*r.candidates.at(0).model, *narrow::find_dot_model(model)));
  }
}

TEST_CASE("validate: an output that was rounded on the way is told from a split of K") {
  Values v(64, 64, 256, fp16);
  // The sum to fp16, then the bias, then fp16 again: kernels do so, and a plan says it.
  Matrix sums(64, 64, 2);
  narrow::GemmOptions o;
  o.output = fp16;
  test::run_gemm(*narrow::find_dot_model("hopper.wgmma.f32.f16.f16"), {}, v.a.codes(), v.b.codes(), {}, sums, o);
  v.make([&](std::size_t i, std::size_t j) { return narrow::decode(sums.get(i, j), fp16) + v.bias(i, j); });
  const ValidateResult before = narrow::validate(v.request(true));
  CAPTURE(all_of(before));
  CHECK(before.exact);
  CHECK(before.candidates.at(0).plan == narrow::Plan{.c = narrow::PlaceOfC::after});
  // FP32 to bf16 to fp16.
  Matrix wide(64, 64, 4);
  o.output = fp32;
  test::run_gemm(*narrow::find_dot_model("hopper.wgmma.f32.f16.f16"), {}, v.a.codes(), v.b.codes(), {}, wide, o);
  v.make([&](std::size_t i, std::size_t j) { return narrow::round_to(narrow::decode(wide.get(i, j), fp32), bf16); });
  const ValidateResult twice = narrow::validate(v.request());
  CAPTURE(all_of(twice));
  CHECK_FALSE(twice.exact);
  CHECK(twice.relation == "rounded twice");
  CHECK(says(twice, "to bf16 first"));
}

TEST_CASE("validate: a missing scale is no other arithmetic") {
  Values v(24, 32, 128);
  v.make_by("hopper.wgmma.f32.f16.f16", "chain");
  ValidateRequest request = v.request();
  const float scale = 0.0321f;
  request.options.scale_a = {{&scale, 1}, 0, 0};
  const ValidateResult r = narrow::validate(request);
  CHECK_FALSE(r.exact);
  CHECK(r.relation == "missing scale");
  CHECK(says(r, "gives every bit"));
}

TEST_CASE("validate: tiles that were lost or exchanged are named with their rows and columns") {
  Values v(96, 80, 128);
  v.make_by("hopper.wgmma.f32.f16.f16", "chain");
  const Matrix right = v.d;
  for (std::size_t i = 32; i < 48; ++i)
    for (std::size_t j = 16; j < 80; ++j) v.d.set(i, j, 0);
  const ValidateResult lost = narrow::validate(v.request());
  CAPTURE(all_of(lost));
  CHECK(says(lost, "rows 32 to 47, columns 16 to 79 are zero"));
  CHECK(lost.equal_count == 96 * 80 - 16 * 64);

  v.d = right;
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 16; ++j) v.d.set(i, j, right.get(i + 64, j + 32)), v.d.set(i + 64, j + 32, right.get(i, j));
  const ValidateResult swapped = narrow::validate(v.request());
  CAPTURE(all_of(swapped));
  CHECK(says(swapped, "rows 0 to 15, columns 0 to 15 hold what belongs to rows 64 to 79, columns 32 to 47"));
  CHECK(says(swapped, "swapped"));

  v.d = right;
  for (std::size_t j = 0; j < 80; ++j) v.d.set(17, j, right.get(18, j));
  const ValidateResult row = narrow::validate(v.request());
  CAPTURE(all_of(row));
  CHECK(says(row, "row 17"));
}

TEST_CASE("validate: noise is explained by nothing and nothing is suspected") {
  Values v(32, 32, 64);
  v.make([](std::size_t i, std::size_t j) { return normal(9, i * 32 + j); });
  const ValidateResult r = narrow::validate(v.request());
  CAPTURE(all_of(r));
  CHECK_FALSE(r.exact);
  CHECK(r.relation.empty());
  CHECK(r.suspicions.empty());
  CHECK(r.equal_count < 8);
}

TEST_CASE("validate: the newest generation comes first and a named GPU before it") {
  using narrow::Generation;
  // Small integers: every sum is exact, and every machine gives it.
  Values v(16, 16, 48);
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t x = 0; x < 48; ++x) v.a.set(i, x, narrow::encode(static_cast<double>((i * 7 + x) % 5), fp16));
  for (std::size_t x = 0; x < 48; ++x)
    for (std::size_t j = 0; j < 16; ++j) v.b.set(x, j, narrow::encode(static_cast<double>((x * 3 + j) % 7) - 3, fp16));
  v.make_by("volta.mma.f32.f16.f16.k4", "chain");
  ValidateRequest request = v.request();
  const ValidateResult r = narrow::validate(request);
  REQUIRE(r.exact);
  CHECK(r.candidates.size() > 200);
  CHECK(r.candidates[0].model->generation == Generation::rtx_blackwell);
  CHECK(r.candidates[0].plan == narrow::Plan{});
  CHECK_FALSE(r.differences.empty());
  for (const narrow::Candidate& c : r.candidates) CHECK(c.compared == r.total);
  // The claim that they all give these bits is checked, one in seven.
  for (std::size_t n = 0; n < r.candidates.size(); n += 7) {
    Matrix d(16, 16, 4);
    narrow::GemmOptions o;
    o.output = fp32;
    test::run_gemm(*r.candidates[n].model, r.candidates[n].plan, v.a.codes(), v.b.codes(), {}, d, o);
    for (std::size_t i = 0; i < 16; ++i)
      for (std::size_t j = 0; j < 16; ++j) REQUIRE(d.get(i, j) == v.d.get(i, j));
  }
  // What would tell them apart does.
  REQUIRE(r.telling);
  REQUIRE(r.telling->answers.size() >= 2);
  const std::size_t k = r.telling->b.size();
  Matrix ones(1, k, 2), column(k, 1, 2);
  for (std::size_t x = 0; x < k; ++x) ones.set(0, x, narrow::encode(1.0, fp16)), column.set(x, 0, r.telling->b[x]);
  for (const auto& answer : r.telling->answers)
    for (const narrow::Candidate& c : answer.candidates) {
      Matrix d(1, 1, 4);
      narrow::GemmOptions o;
      o.output = fp32;
      test::run_gemm(*c.model, c.plan, ones.codes(), column.codes(), {}, d, o);
      CHECK(d.get(0, 0) == answer.code);
    }
  request.gpu = narrow::gpu_generation("V100");
  CHECK(narrow::validate(request).candidates.at(0).model->generation == Generation::volta);
}

TEST_CASE("validate: GPUs are known by the names that people use") {
  using narrow::Generation;
  const std::pair<const char*, Generation> names[] = {
      {"h200", Generation::hopper},          {"NVIDIA H100 PCIe", Generation::hopper},
      {"A100-SXM4-80GB", Generation::ampere}, {"a10", Generation::ampere},
      {"RTX 4090", Generation::ada},         {"NVIDIA GeForce RTX 3090", Generation::ampere},
      {"rtx 5090", Generation::rtx_blackwell}, {"B200", Generation::blackwell},
      {"L40S", Generation::ada},             {"sm_90", Generation::hopper},
      {"Tesla V100", Generation::volta},     {"MI300X", Generation::cdna3},
      {"hopper", Generation::hopper},        {"rtx-blackwell", Generation::rtx_blackwell}};
  for (const auto& [name, generation] : names) {
    CAPTURE(name);
    CHECK(narrow::gpu_generation(name) == generation);
  }
  CHECK_THROWS_WITH_AS(narrow::gpu_generation("voodoo"), doctest::Contains("h200"), narrow::Error);
}

TEST_CASE("validate: a bias and a batch are parts of the product") {
  Values v(24, 40, 128);
  const narrow::DotModel& m = *narrow::find_dot_model("hopper.wgmma.f32.f16.f16");
  narrow::CodeMatrix bias = v.c.codes();
  bias.pitch = 0;  // its first row for all
  test::run_gemm(m, {}, v.a.codes(), v.b.codes(), bias, v.d, {});
  ValidateRequest request = v.request();
  request.c = bias;
  CHECK(narrow::validate(request).exact);
  request.c = {};
  CHECK(narrow::validate(request).relation == "column bias");

  // Three products with one B, of which the last is wrong in one output.
  Matrix a(72, 128, 2), d(72, 40, 4);
  for (std::size_t i = 0; i < 72; ++i)
    for (std::size_t x = 0; x < 128; ++x) a.set(i, x, narrow::encode(normal(4, i * 128 + x), fp16));
  test::run_gemm(m, parse_plan("split:64"), a.codes(), v.b.codes(), {}, d, {});
  request = v.request();
  request.a = a.codes(), request.d = d.codes();
  request.a.rows = request.d.rows = 24;
  request.batch = {3, 24 * 128, 0, 0, 24 * 40};
  const ValidateResult three = narrow::validate(request);
  CHECK(three.exact);
  CHECK(three.total == 72 * 40);
  CHECK(std::any_of(three.candidates.begin(), three.candidates.end(),
                    [](const auto& c) { return c.plan == parse_plan("split:64"); }));
  d.set(48 + 5, 7, d.get(48 + 5, 7) ^ 4);
  const ValidateResult wrong = narrow::validate(request);
  CHECK_FALSE(wrong.exact);
  CHECK(wrong.equal_count == 72 * 40 - 1);
  REQUIRE(wrong.failing);
  CHECK(wrong.failing->item == 2);
  CHECK(wrong.failing->row == 5);
  CHECK(wrong.failing->col == 7);
}

// Time is that of the processor, so that a busy machine changes nothing, and counted in emulated products of this build, so
// that a slow build does not either. It takes 130 to 250 of them, for all plans of all models: ten times that.
TEST_CASE("validate: a product that matches nothing is told soon") {
  if (test::scale() < 0.5) return;
  Values v(128, 192, 512);
  const auto time_of = [](const auto& body) {
    const std::clock_t start = std::clock();
    body();
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  double product = 1e9;
  for (int round = 0; round < 5; ++round) product = std::min(product, time_of([&] { v.make_by("hopper.mma.f32.f16.f16.k16", "chain"); }));
  v.make([&](std::size_t i, std::size_t j) { return v.product(i, j); });
  const double told = time_of([&] { (void)narrow::validate(v.request()); });
  CHECK(told < 2500 * product);
}

TEST_CASE("validate: what holds at some places or for no product is not said of all of D") {
  Values v(64, 48, 256);
  struct Row {
    const char* name;
    std::function<double(std::size_t, std::size_t)> value;
    const char* words;
  };
  const Row rows[] = {
      {"noise", [&](std::size_t i, std::size_t j) { return normal(9, i * 48 + j); }, ""},
      {"small noise", [&](std::size_t i, std::size_t j) { return 1e-3 * normal(9, i * 48 + j); }, ""},
      {"even rows zero", [&](std::size_t i, std::size_t j) { return i % 2 == 0 ? 0 : v.product(i, j); }, ""},
      {"even rows doubled", [&](std::size_t i, std::size_t j) { return (i % 2 == 0 ? 2 : 1) * v.product(i, j); }, ""},
      {"elu", [&](std::size_t i, std::size_t j) { return v.product(i, j) > 0 ? v.product(i, j) : std::expm1(v.product(i, j)); }, ""}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    v.make(row.value);
    const ValidateResult r = narrow::validate(v.request());
    CHECK_FALSE(r.exact);
    CHECK_MESSAGE(r.relation.empty(), all_of(r));
  }
  // With the bits of a model: what lies in the places that differ.
  v.make_by("hopper.wgmma.f32.f16.f16", "chain");
  const Matrix right = v.d;
  const auto changed = [&](const std::function<Code(std::size_t, std::size_t, Code)>& change) {
    for (std::size_t i = 0; i < v.rows; ++i)
      for (std::size_t j = 0; j < v.cols; ++j) v.d.set(i, j, change(i, j, right.get(i, j)));
    const ValidateResult r = narrow::validate(v.request());
    CHECK_FALSE(r.exact);
    CHECK(r.relation.empty());
    return r;
  };
  CHECK(says(changed([](std::size_t, std::size_t j, Code c) { return j < 24 ? c : 0; }), "rows 0 to 63, columns 24 to 47 are zero"));
  CHECK(says(changed([](std::size_t i, std::size_t j, Code c) { return i < 16 && j < 16 ? c ^ 0x80000000u : c; }), "rows 0 to 15, columns 0 to 15 are negated"));
  CHECK(says(changed([](std::size_t i, std::size_t j, Code c) { return (i < 8 && j < 8) || (i > 40 && j > 40) ? 0 : c; }), "every output that differs is zero"));
  CHECK(says(changed([&](std::size_t i, std::size_t j, Code c) { return i < 32 && j < 16 ? right.get(i ^ 16, j) : c; }), "swapped"));
}

TEST_CASE("validate: an output that holds fewer bits than its format was rounded before") {
  Values v(32, 48, 256);
  for (const narrow::Format& f : {fp16, bf16}) {
    v.make_by("hopper.wgmma.f32.f16.f16", "chain");
    for (std::size_t i = 0; i < v.rows; ++i)
      for (std::size_t j = 0; j < v.cols; ++j) v.d.set(i, j, narrow::convert(narrow::convert(v.d.get(i, j), fp32, f), f, fp32));
    const ValidateResult r = narrow::validate(v.request());
    CHECK_FALSE(r.exact);
    CHECK(r.relation == "rounded to less");
    CHECK_MESSAGE(says(r, "gives every bit"), all_of(r));
  }
}
