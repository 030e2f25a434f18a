// Does validate() name what made a product, and not claim what did not?
#include "narrow/dot/validate.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "dot/matrices.hpp"
#include "dot/named_model.hpp"
#include "narrow/dot/likelihood.hpp"
#include "support/scale.hpp"
#include "support/contains.hpp"

using narrow::Code;
using narrow::DotModel;
using narrow::parse_plan;
using narrow::Plan;
using narrow::ValidateRequest;
using narrow::ValidateResult;
using test::Matrix;

namespace {

// Values about one, all mantissas: what sums of a thousand products can tell apart. FP8 spreads wider, or sums of FP32
// would be exact; FP32 words for TF32 have ties among them.
Matrix random_matrix(std::size_t rows, std::size_t cols, const narrow::Format& f, std::uint64_t seed,
                     narrow::Layout layout = narrow::Layout::row_major) {
  Matrix x(rows, cols, test::code_bytes(f), layout);
  test::Dice dice(seed);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) {
      const bool word = test::is_tf32(f);
      const narrow::Format drawn = word ? narrow::find_format("fp32").value() : f;
      const int spread = f.mantissa_bits <= 3 ? 6 : 2;
      const Code code = test::code_of(drawn, dice.one_in(2), dice.between(-spread, spread - 1), dice.bits());
      x.set(i, j, word && dice.one_in(4) ? (code & ~Code{0x1FFF}) | 0x1000 : code);
    }
  return x;
}

struct Case {
  Matrix a, b, c, d;
  const DotModel& m;
  bool with_c;

  Case(const std::string& name, const std::string& plan, std::size_t rows, std::size_t cols, std::size_t k,
       bool has_c = false, std::uint64_t seed = 1)
      : a(random_matrix(rows, k, model(name).a.format, seed)),
        b(random_matrix(k, cols, model(name).b.format, seed + 1, narrow::Layout::column_major)),
        c(random_matrix(rows, cols, model(name).accumulator.format, seed + 2)),
        d(rows, cols, test::code_bytes(model(name).accumulator.format)),
        m(model(name)),
        with_c(has_c) {
    test::run_gemm(m, parse_plan(plan), a.codes(), b.codes(), with_c ? c.codes() : narrow::CodeMatrix{}, d, {});
  }
  ValidateRequest request() const {
    ValidateRequest r;
    r.a = a.codes(), r.b = b.codes(), r.d = d.codes();
    if (with_c) r.c = c.codes();
    r.a_format = m.a.format, r.b_format = m.b.format, r.d_format = m.accumulator.format;
    return r;
  }
};

// A search costs a second, and many times that under a sanitizer.
bool few_only() { return test::scale() < 0.1; }

// Whether a candidate is this model (or one of the same arithmetic) with this plan.
bool names(const ValidateResult& r, const DotModel& m, const Plan& plan) {
  return std::any_of(r.candidates.begin(), r.candidates.end(), [&](const narrow::Candidate& c) {
    return narrow::same_arithmetic(*c.model, m) && c.plan == plan;
  });
}
bool names_order(const ValidateResult& r, const Plan& plan) {
  return std::any_of(r.candidates.begin(), r.candidates.end(),
                     [&](const narrow::Candidate& c) { return c.plan == plan; });
}

std::string words(const ValidateResult& r) {
  std::string text = r.exact ? "exact" : "closest";
  for (const narrow::Candidate& c : r.candidates)
    text += " " + std::string(c.model->name.view()) + "/" + narrow::plan_text(c.plan);
  return text + ", " + std::to_string(r.equal_count) + " of " + std::to_string(r.total);
}

void require_found(const std::string& name, const std::string& plan, std::size_t k, bool with_c = false,
                   const char* not_this = nullptr) {
  CAPTURE(name);
  CAPTURE(plan);
  const Case x(name, plan, 12, 20, k, with_c);
  const ValidateResult r = narrow::validate(x.request());
  CAPTURE(words(r));
  CHECK(r.exact);
  CHECK(names(r, x.m, parse_plan(plan)));
  CHECK(r.equal_count == r.total);
  CHECK(r.total == 12 * 20);
  CHECK(r.ulp_counts[0] == r.total);
  CHECK(r.max_ulp == 0);
  CHECK(r.suspicions.empty());
  CHECK(!r.failing);
  if (not_this != nullptr) CHECK_FALSE(names_order(r, parse_plan(not_this)));
  // Every candidate gives these bits: the claim is checked, not trusted.
  for (const narrow::Candidate& c : r.candidates) {
    if (c.model->is_block_scaled()) continue;
    Matrix d(12, 20, x.d.bytes());
    narrow::GemmOptions o;
    o.output = x.m.accumulator.format, o.c_format = x.m.accumulator.format;
    test::run_gemm(*c.model, c.plan, x.a.codes(), x.b.codes(), with_c ? x.c.codes() : narrow::CodeMatrix{}, d, o);
    bool same = true;
    for (std::size_t i = 0; i < 12; ++i)
      for (std::size_t j = 0; j < 20; ++j) same = same && d.get(i, j) == x.d.get(i, j);
    CHECK_MESSAGE(same, std::string(c.model->name.view()) << " " << narrow::plan_text(c.plan));
  }
}

}  // namespace

TEST_CASE("validate: chains, promotions and splits are told apart for every type") {
  for (const char* name :
       {"hopper.mma.f32.f16.f16.k16", "hopper.mma.f32.bf16.bf16.k16", "hopper.wgmma.f32.e4m3.e4m3"}) {
    if (few_only() && name != std::string("hopper.mma.f32.f16.f16.k16")) continue;
    require_found(name, "chain", 1600, false, "promote:128");
    require_found(name, "promote:128", 1600, false, "chain");
    require_found(name, "split:192", 1600, false, "chain");
    require_found(name, "split:1408", 1600, false, "split:192");
  }
  require_found("hopper.wgmma.f32.e5m2.e4m3", "promote:128", 512, false, "chain");
  require_found("hopper.mma.f16.f16.f16.k16", "chain", 256);
}

// What cuBLAS ran on an H200 for 64 x 24 x 63624, 64 x 108 x 18880, 40 x 4 x 3000, and 184 x 300 x 1600.
TEST_CASE("validate: parts of whole lines, many of them, are found under an output of 16 bits") {
  const narrow::Format half = narrow::find_format("fp16").value();
  for (const auto& [k, plan] : {std::pair{63624, "split:1408"}, {18880, "split:1216,stored"}, {3000, "split:24,stored"},
                                {1600, "split:832,serial"}}) {
    if (few_only() && k > 3000) continue;
    CAPTURE(k);
    Case x("hopper.wgmma.f32.f16.f16", "chain", 24, 40, static_cast<std::size_t>(k));
    Matrix d(24, 40, 2);
    narrow::GemmOptions options;
    options.output = half;
    test::run_gemm(x.m, parse_plan(plan), x.a.codes(), x.b.codes(), {}, d, options);
    ValidateRequest request = x.request();
    request.d = d.codes();
    request.d_format = half;
    const ValidateResult r = narrow::validate(request);
    CAPTURE(words(r));
    CHECK(r.exact);
    CHECK(std::any_of(r.candidates.begin(), r.candidates.end(), [&](const narrow::Candidate& c) {
      const Plan found = c.plan, made = parse_plan(plan);  // short parts are the same under a residue
      return narrow::same_arithmetic(*c.model, x.m) && found.length == made.length && found.partials == made.partials;
    }));
  }
}

TEST_CASE("validate: with C") {
  require_found("hopper.mma.f32.f16.f16.k16", "chain", 512, true, "split:128");
  require_found("ampere.mma.f32.bf16.bf16.k16", "chain", 512, true);
}

TEST_CASE("validate: generations are told apart") {
  using narrow::Generation;
  struct Told {
    const char* name;
    std::vector<Generation> named, not_named;
  };
  const Told told[] = {
      {"volta.mma.f32.f16.f16.k4", {Generation::volta}, {Generation::ampere, Generation::hopper}},
      {"ampere.mma.f32.f16.f16.k16", {Generation::ampere, Generation::ada}, {Generation::volta, Generation::hopper}},
      {"hopper.mma.f32.f16.f16.k16", {Generation::hopper, Generation::blackwell}, {Generation::ampere}},
      {"ada.mma.f32.e4m3.e4m3.k32", {Generation::ada}, {Generation::hopper, Generation::blackwell}},
      {"hopper.wgmma.f32.e4m3.e4m3", {Generation::hopper}, {Generation::ada, Generation::blackwell}},
      {"hopper.mma.f32.e4m3.e4m3.k32", {Generation::hopper, Generation::blackwell}, {Generation::ada}},
      {"cdna3.mfma.f32.f16.f16.k16", {Generation::cdna3}, {Generation::cdna1, Generation::cdna2, Generation::hopper}}};
  for (const auto& [name, named, not_named] : told) {
    if (few_only() && named.size() == 1) continue;
    CAPTURE(name);
    const ValidateResult r = narrow::validate(Case(name, "chain", 12, 20, 700).request());
    CAPTURE(words(r));
    CHECK(r.exact);
    const auto holds = [&](Generation g) {
      return std::any_of(r.candidates.begin(), r.candidates.end(),
                         [&](const auto& c) { return c.model->generation == g; });
    };
    for (const Generation g : named) CHECK(holds(g));
    for (const Generation g : not_named) CHECK_FALSE(holds(g));
  }
}

TEST_CASE("validate: rounded and cut TF32 operands are told apart") {
  for (const char* text : {"chain", "chain,rne", "chain,rna", "split:192,rne", "split:64,rne"}) {
    CAPTURE(text);
    const Case x("hopper.mma.f32.tf32.tf32.k8", text, 12, 20, 500);
    const ValidateResult r = narrow::validate(x.request());
    CAPTURE(words(r));
    CHECK(r.exact);
    CHECK(names(r, x.m, parse_plan(text)));
    for (const narrow::Candidate& c : r.candidates) CHECK(c.plan.operands == parse_plan(text).operands);
  }
}

TEST_CASE("validate: the class holds every model of the same arithmetic and the likeliest comes first") {
  const Case x("hopper.mma.f32.f16.f16.k16", "promote:128", 10, 16, 1024);
  const ValidateResult r = narrow::validate(x.request());
  REQUIRE(r.exact);
  CHECK(names_order(r, parse_plan("promote:128")));
  CHECK(names_order(r, parse_plan("split:128")));
  for (const char* name : {"hopper.mma.f32.f16.f16.k16", "hopper.wgmma.f32.f16.f16", "blackwell.tcgen05.f32.f16.f16"})
    CHECK_MESSAGE(
        std::any_of(r.candidates.begin(), r.candidates.end(), [&](const auto& c) { return c.model == &model(name); }),
        name);
  // Usual plans first, and of each kind the newest generation.
  std::vector<narrow::Candidate> usual = r.candidates;
  std::erase_if(usual, [](const auto& c) { return narrow::plan_text(c.plan) != "promote:128" && narrow::plan_text(c.plan) != "split:128"; });
  CHECK(narrow::plan_text(r.candidates[0].plan) == "promote:128");
  CHECK(std::is_sorted(usual.begin(), usual.end(), [](const auto& p, const auto& q) {
    return narrow::detail::unlikelihood(*p.model, {}) < narrow::detail::unlikelihood(*q.model, {});
  }));
}

TEST_CASE("validate: software orders and other accumulators") {
  for (const auto& [name, k] : {std::pair{"software.fma.f32.f16.f16", 256},
                                {"software.muladd.f32.bf16.bf16", 256},
                                {"software.pairwise.f32.f16.f16", 256},
                                {"software.muladd.bf16.bf16.bf16", 128},
                                {"software.kahan.f32.f32.f32", 256}}) {
    const Case x(name, "chain", 10, 16, static_cast<std::size_t>(k));
    const ValidateResult r = narrow::validate(x.request());
    CAPTURE(words(r));
    CHECK(r.exact);
    CHECK(names(r, x.m, {}));
  }
}

TEST_CASE("validate: a single wrong bit is no exact match, and the failing output is named") {
  for (const char* name : {"hopper.mma.f32.f16.f16.k16", "hopper.wgmma.f32.e4m3.e4m3", "hopper.mma.f16.f16.f16.k16"})
    for (const auto& [row, col, bit] : {std::tuple{0, 0, 0}, {11, 19, 9}}) {
      Case x(name, "chain", 12, 20, 140);
      const Code right = x.d.get(static_cast<std::size_t>(row), static_cast<std::size_t>(col));
      // The 13-bit results have zeros below.
      const int flipped = x.m.result.mantissa_bits == 13 ? bit + 10 : bit;
      const Code wrong = right ^ (Code{1} << flipped);
      x.d.set(static_cast<std::size_t>(row), static_cast<std::size_t>(col), wrong);
      const ValidateResult r = narrow::validate(x.request());
      CAPTURE(words(r));
      CHECK_FALSE(r.exact);
      CHECK(r.total == 240);
      CHECK(r.equal_count == 239);
      CHECK(names(r, x.m, {}));
      CHECK(r.max_ulp > 0);
      REQUIRE(r.failing.has_value());
      CHECK(r.failing->row == static_cast<std::size_t>(row));
      CHECK(r.failing->col == static_cast<std::size_t>(col));
      CHECK(r.failing->expected == right);
      CHECK(r.failing->found == wrong);
      CHECK(r.failing->a.size() == r.failing->b.size());
      // The vector that is printed really gives what it says.
      CHECK(narrow::dot(*r.candidates.at(0).model, r.failing->a, r.failing->b, r.failing->c) == right);
      CHECK(r.ulp_counts[0] == 239);
      std::uint64_t sum = r.nan_mismatch;
      for (const std::uint64_t count : r.ulp_counts) sum += count;
      CHECK(sum == 240);
    }
}

TEST_CASE("validate: a corruption outside any sample is seen") {
  Case x("hopper.mma.f32.f16.f16.k16", "split:96", 100, 90, 200);
  x.d.set(67, 41, x.d.get(67, 41) ^ 1);
  const ValidateResult r = narrow::validate(x.request());
  CHECK_FALSE(r.exact);
  CHECK(r.equal_count == 100 * 90 - 1);
  REQUIRE(r.failing.has_value());
  CHECK(r.failing->row == 67);
  CHECK(r.failing->col == 41);
}

TEST_CASE("validate: a corruption of an output of the smallest sample does not lead astray") {
  // A sample of one row and two columns, evenly spread, holds one of these; a wrong plan can give the wrong bit by
  // chance.
  for (const auto& [row, col] : {std::pair<std::size_t, std::size_t>{6, 5}, {6, 15}}) {
    Case x("hopper.mma.f32.f16.f16.k16", "split:96", 12, 20, 300);
    x.d.set(row, col, x.d.get(row, col) ^ 1);
    const ValidateResult r = narrow::validate(x.request());
    CAPTURE(col);
    CAPTURE(words(r));
    CHECK_FALSE(r.exact);
    CHECK(r.equal_count == 239);
    CHECK(names(r, x.m, parse_plan("split:96")));
  }
}

TEST_CASE("validate: a machine that is not in the table fits nothing") {
  DotModel alien = model("hopper.mma.f32.f16.f16.k16");
  alien.fraction_bits = 29;
  Case x("hopper.mma.f32.f16.f16.k16", "chain", 12, 20, 200);
  test::run_gemm(alien, {}, x.a.codes(), x.b.codes(), {}, x.d, {.one_by_one = true});
  const ValidateResult r = narrow::validate(x.request());
  CAPTURE(words(r));
  CHECK_FALSE(r.exact);
  CHECK(r.equal_count < r.total);
  CHECK(r.candidates.size() >= 1);
  REQUIRE(r.failing.has_value());
  CHECK(r.failing->expected != r.failing->found);
}

TEST_CASE("validate: exact sums are what FP64 gives") {
  Case x("software.muladd.f64.f16.f16", "chain", 6, 10, 300);
  Matrix d(6, 10, 4);
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t j = 0; j < 10; ++j) {
      std::vector<Code> a, b;
      for (std::size_t k = 0; k < 300; ++k) a.push_back(x.a.get(i, k)), b.push_back(x.b.get(k, j));
      d.set(i, j, narrow::exact_dot(a, x.m.a.format, b, x.m.b.format, 0, narrow::find_format("fp32").value()));
    }
  ValidateRequest request = x.request();
  request.d = d.codes();
  request.d_format = narrow::find_format("fp32").value();
  const ValidateResult r = narrow::validate(request);
  CHECK(r.exact);
  CHECK(names(r, x.m, {}));
}

TEST_CASE("validate: a model and a plan can be asked for") {
  const Case x("hopper.mma.f32.f16.f16.k16", "split:192", 12, 20, 1024);
  ValidateRequest request = x.request();
  request.model = &x.m;
  request.plan = parse_plan("split:192");
  CHECK(narrow::validate(request).exact);
  request.plan = parse_plan("chain");
  CHECK_FALSE(narrow::validate(request).exact);
  request.plan.reset();
  CHECK(narrow::validate(request).exact);
  request.model = &model("ampere.mma.f32.f16.f16.k16");
  CHECK_FALSE(narrow::validate(request).exact);
}

TEST_CASE("validate: ten products of gemm are named") {
  const std::pair<const char*, const char*> pairs[] = {
      {"hopper.mma.f32.f16.f16.k16", "split:384"},   {"hopper.wgmma.f32.bf16.bf16", "chain"},
      {"hopper.wgmma.f32.e4m3.e4m3", "promote:128"}, {"hopper.mma.f32.tf32.tf32.k8", "split:192,rne"},
      {"ampere.mma.f32.f16.f16.k16", "split:64"},    {"ampere.mma.f32.tf32.tf32.k8", "chain"},
      {"ada.mma.f32.e4m3.e4m3.k32", "chain"},        {"volta.mma.f32.f16.f16.k4", "chain"},
      {"hopper.mma.f32.e4m3.e4m3.k32", "chain"},     {"cdna3.mfma.f32.bf16.bf16.k16", "chain"}};
  for (const auto& [name, plan] : std::span(pairs).first(few_only() ? 3 : std::size(pairs)))
    require_found(name, plan, 640);
}

TEST_CASE("validate: what cannot be asked is an error of one line") {
  const auto fails = [](const ValidateRequest& request) {
    const std::string text = test::error_of([&] { (void)narrow::validate(request); });
    return !text.empty() && !contains(text, "\n");
  };
  const Case x("hopper.mma.f32.f16.f16.k16", "chain", 4, 6, 64);
  ValidateRequest shape = x.request();
  shape.b = x.a.codes();
  CHECK(fails(shape));
  shape = x.request();
  shape.d = x.a.codes();
  CHECK(fails(shape));
  ValidateRequest empty = x.request();
  empty.a.rows = 0, empty.d.rows = 0;
  CHECK(fails(empty));
  ValidateRequest types = x.request();
  types.b_format = narrow::find_format("e4m3").value();
  CHECK(fails(types));
  ValidateRequest wrong_model = x.request();
  wrong_model.model = &model("hopper.wgmma.f32.e4m3.e4m3");
  CHECK(fails(wrong_model));
  const float ones[] = {1, 1, 1};
  ValidateRequest few = x.request();
  few.options.scale_a = {ones, 1, 0};  // four rows
  CHECK(fails(few));
  few.options.scale_a = {}, few.options.scale_b = {ones, 1, 0};  // six columns
  CHECK(fails(few));
  ValidateRequest none = x.request();
  none.d.data = nullptr;
  CHECK(fails(none));
  const Case scaled("blackwell.tcgen05.f32.e4m3.e4m3.mxf8f6f4", "chain", 4, 6, 64);
  const std::vector<std::uint8_t> codes(4 * 2 - 1, 127);
  ValidateRequest blocks = scaled.request();
  blocks.options.block_a = codes;
  CHECK(fails(blocks));
  blocks.model = &scaled.m;
  CHECK(fails(blocks));
  Case nan("hopper.mma.f32.f16.f16.k16", "chain", 4, 6, 64);
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t k = 0; k < 64; ++k) nan.a.set(i, k, 0x7FFF);
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 0; j < 6; ++j) nan.d.set(i, j, 0x7FFFFFFF);
  CHECK(fails(nan.request()));
}
