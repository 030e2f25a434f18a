// Whole products: plans, layouts, scales, epilogues and outputs against a plain computation; bad requests.
#include <doctest/doctest.h>

#include <bit>

#include "dot/expected_product.hpp"
#include "dot/named_model.hpp"
#include "support/contains.hpp"
#include "support/mismatches.hpp"
#include "support/rows.hpp"
#include "support/scale.hpp"

using narrow::Code;
using narrow::DotModel;
using narrow::GemmOptions;
using narrow::Layout;
using narrow::parse_plan;
using narrow::Plan;
using test::Family;
using test::Matrices;
using test::Matrix;
using test::Problem;

namespace {

// One of each kind of arithmetic and accumulator.
const char* const kinds[] = {"hopper.mma.f32.f16.f16.k16",
                             "hopper.mma.f16.f16.f16.k16",
                             "ampere.mma.f32.bf16.bf16.k16",
                             "hopper.wgmma.f32.tf32.tf32",
                             "hopper.wgmma.f32.e4m3.e4m3",
                             "hopper.mma.f32.e4m3.e5m2.k32",
                             "hopper.mma.f16.e5m2.e5m2.k32",
                             "ada.mma.f32.e5m2.e4m3.k32",
                             "hopper.mma.f64.f64.f64.k16",
                             "ampere.mma.s32.s8.s8.k32",
                             "ampere.mma.s32.s8.s8.k16.satfinite",
                             "cdna1.mfma.f32.f16.f16.k16",
                             "cdna2.mfma.f32.bf16.bf16.k8",
                             "cdna3.mfma.f32.e4m3fnuz.e5m2fnuz.k32",
                             "software.fma.f32.f16.f16",
                             "software.muladd.bf16.bf16.bf16",
                             "software.pairwise.f32.f32.f32",
                             "software.kahan.f32.bf16.bf16",
                             "software.muladd.f64.f64.f64",
                             "blackwell.tcgen05.f32.e2m1.e2m1.nvf4",
                             "blackwell.tcgen05.f32.e4m3.e4m3.mxf8f6f4"};

// zero_sign: a mask of the sign bit, where +0 and -0 count as equal.
void require_equal(const Matrix& x, const Matrix& y, const std::string& about, Code zero_sign = 0) {
  test::Mismatches wrong;
  const auto is_zero = [&](Code code) { return zero_sign != 0 && (code & ~zero_sign) == 0; };
  REQUIRE(x.rows() == y.rows());
  REQUIRE(x.cols() == y.cols());
  for (std::size_t i = 0; i < x.rows(); ++i)
    for (std::size_t j = 0; j < x.cols(); ++j)
      if (x.get(i, j) != y.get(i, j) && !(is_zero(x.get(i, j)) && is_zero(y.get(i, j))))
        wrong.add([&] {
          return std::to_string(i) + "," + std::to_string(j) + ": " + test::hex(x.get(i, j)) + ", " +
                 test::hex(y.get(i, j));
        });
  wrong.require_none(about);
}

void require_expected(const DotModel& m, const Plan& plan, const Problem& p, bool with_c, const GemmOptions& options,
                      const std::string& about) {
  const Matrices x(m, p);
  GemmOptions slow = options;
  slow.one_by_one = true;
  const Matrix fast = test::product(m, plan, x, with_c, options), one_by_one = test::product(m, plan, x, with_c, slow);
  test::Mismatches wrong;
  for (std::size_t i = 0; i < p.rows; ++i)
    for (std::size_t j = 0; j < p.cols; ++j) {
      const Code want = test::expected_output(m, plan, p, with_c, options, i, j);
      if (want != fast.get(i, j) || want != one_by_one.get(i, j))
        wrong.add([&] {
          return std::to_string(i) + "," + std::to_string(j) + ": expected " + test::hex(want) + ", gemm " +
                 test::hex(fast.get(i, j)) + ", one by one " + test::hex(one_by_one.get(i, j));
        });
    }
  wrong.require_none(std::string(m.name.view()) + ", " + narrow::plan_text(plan) + ", " + about);
}

// Fewer under sanitizers, where the scale is small.
std::span<const Family> some_families() {
  static constexpr Family all[] = {Family::any_bits, Family::near_one, Family::window};
  return std::span(all).first(test::scale() < 0.1 ? 1 : 3);
}

}  // namespace

TEST_CASE("gemm: every order of sums is what its words say") {
  const char* const plans[] = {"chain",
                               "promote:64",
                               "split:64",
                               "split:96",
                               "split:64,pairwise",
                               "split:64,reversed",
                               "split:32,pairwise",
                               "slice:3,run=64",
                               "slice:2,run=64,pairwise",
                               "slice:4,run=32,reversed",
                               "even:3,run=32",
                               "even:3,run=32,reversed",
                               "even:4,pairwise",
                               "split:32,halving",
                               "slice:5,halving,run=32",
                               "split:1024"};
  for (const char* name : kinds)
    for (const char* text : plans)
      for (const Family family : some_families())
        for (const bool with_c : {false, true}) {
          const DotModel& m = model(name);
          const std::size_t k = m.is_block_scaled() ? 256 : 203;
          require_expected(m, parse_plan(text), test::make_problem(m, family, 3, 18, k, 3), with_c, {},
                           test::name(family));
        }
}

TEST_CASE("gemm: plans without multiples of a step are filled up with zero products") {
  for (const char* name : {"hopper.mma.f32.f16.f16.k16", "hopper.mma.f32.e4m3.e4m3.k32", "hopper.wgmma.f32.e5m2.e5m2",
                           "ampere.mma.f16.f16.f16.k8", "software.fma.f32.f16.f16", "hopper.mma.s32.s8.s8.k32"})
    for (const char* text : {"split:7", "promote:33", "slice:3,run=5", "slice:2", "split:1"})
      for (const Family family : some_families()) {
        const DotModel& m = model(name);
        require_expected(m, parse_plan(text), test::make_problem(m, family, 3, 17, 71, 5), false, {},
                         test::name(family));
      }
}

TEST_CASE("gemm: partial results can be rounded to the output and added there") {
  for (const char* name : {"hopper.mma.f32.f16.f16.k16", "hopper.wgmma.f32.bf16.bf16", "hopper.wgmma.f32.e4m3.e4m3"})
    for (const char* out : {"fp16", "bf16", "fp32", "e4m3"})
      for (const char* text : {"split:64,output", "split:32,reversed,output", "slice:3,pairwise,output"}) {
        const DotModel& m = model(name);
        GemmOptions o;
        o.output = narrow::find_format(out).value();
        for (const Family family : {Family::near_one, Family::any_bits})
          require_expected(m, parse_plan(text), test::make_problem(m, family, 6, 18, 150, 9), false, o, out);
      }
}

TEST_CASE("gemm: partial results can be stored in the output's format, or kept there, and C comes in before or after") {
  for (const char* name : {"hopper.mma.f32.f16.f16.k16", "hopper.mma.f32.bf16.bf16.k8", "software.fma.f32.f16.f16"})
    for (const char* out : {"fp16", "bf16", "fp32"})
      for (const char* text : {"split:64,stored", "split:40,stored,c=after", "split:40,serial",
                               "split:40,serial,c=first", "split:40,reversed,serial", "slice:4,halving,stored,run=8",
                               "split:56,c=first", "chain,c=after", "chain,c=last", "split:24,halving,c=after"}) {
        const DotModel& m = model(name);
        GemmOptions o;
        o.output = narrow::find_format(out).value();
        for (const Family family : {Family::near_one, Family::any_bits})
          for (const bool with_c : {false, true})
            require_expected(m, parse_plan(text), test::make_problem(m, family, 6, 18, 150, 9), with_c, o, out);
      }
}

TEST_CASE("gemm: blocks of threads add products of their own, by halving, and four sums take the blocks in turn") {
  // Values whose products and sums FP32 rounds, added here as a kernel's threads do.
  const DotModel& m = model("software.muladd.f32.f16.f16");
  for (const std::size_t k : {1, 2, 255, 256, 257, 700, 1301, 2600}) {
    const Problem p = test::make_problem(m, Family::near_one, 2, 3, k, 11);
    const test::Matrix d = test::product(m, parse_plan("blocks:128,run=2"), Matrices(m, p), false);
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t j = 0; j < 3; ++j) {
        float sums[4] = {}, total = 0;
        std::size_t blocks = 0;
        for (std::size_t first = 0; first < k; first += 256, ++blocks) {
          float threads[128] = {};
          for (std::size_t n = first; n < std::min(k, first + 256); ++n)
            threads[(n - first) / 2] += static_cast<float>(narrow::decode(p.row(i)[n], m.a.format)) *
                                        static_cast<float>(narrow::decode(p.col(j)[n], m.b.format));
          for (std::size_t offset = 64; offset > 0; offset /= 2)
            for (std::size_t t = 0; t < offset; ++t) threads[t] += threads[t + offset];
          sums[blocks % 4] += threads[0];
        }
        for (std::size_t s = 0; s < std::min<std::size_t>(4, blocks); ++s) total += sums[s];
        CHECK(d.get(i, j) == std::bit_cast<std::uint32_t>(total));
      }
  }
}

TEST_CASE("gemm: promote:128 is split:128 where there is no C, and every plan is chain where K is short") {
  for (const DotModel* row : test::distinct_models()) {
    const DotModel& m = *row;
    const Problem p = test::make_problem(m, Family::near_one, 4, 20, 384, 1),
                  q = test::make_problem(m, Family::near_one, 4, 20, 64, 2);
    const Matrices x(m, p), y(m, q);
    // A sum that starts at +0 never is -0; only sums in software (without fused steps) give -0 at all.
    const bool software = m.generation == narrow::Generation::software || m.rule == narrow::DotRule::fma_chain;
    const Code zero_sign = software ? oracle::sign_bit(m.accumulator.format) : 0;
    require_equal(test::product(m, parse_plan("promote:128"), x, false),
                  test::product(m, parse_plan("split:128"), x, false), std::string(m.name.view()), zero_sign);
    const Matrix chain = test::product(m, {}, y, false);
    for (const char* text : {"promote:128", "split:64", "split:1408,pairwise", "slice:4,run=64", "streamk:1"})
      require_equal(chain, test::product(m, parse_plan(text), y, false), std::string(m.name.view()) + " " + text,
                    zero_sign);
  }
}

TEST_CASE("gemm: stream-K is a split whose cuts depend on the tile") {
  const DotModel& m = model("hopper.mma.f32.f16.f16.k16");
  const Plan plan = parse_plan("streamk:5,tile=16x32x32");
  const Problem p = test::make_problem(m, Family::near_one, 40, 70, 32 * 7, 4);
  const Matrices x(m, p);
  const Matrix d = test::product(m, plan, x, false);
  GemmOptions slow;
  slow.one_by_one = true;
  require_equal(d, test::product(m, plan, x, false, slow), "one by one");
  test::Mismatches wrong;
  for (std::size_t i = 0; i < p.rows; ++i)
    for (std::size_t j = 0; j < p.cols; ++j) {
      const narrow::Schedule s = narrow::make_schedule(plan, m, p.k, p.rows, p.cols, i, j);
      float sum = 0;
      for (std::size_t n = 0; n < s.segments.size(); ++n) {
        std::vector<Code> a, b;
        for (std::size_t at = s.segments[n].begin; at < s.segments[n].end; ++at)
          if (s.order[at] >= 0)
            a.push_back(p.row(i)[static_cast<std::size_t>(s.order[at])]),
                b.push_back(p.col(j)[static_cast<std::size_t>(s.order[at])]);
        const float part = test::from_bits<float>(narrow::dot(m, a, b, 0));
        sum = n == 0 ? part : sum + part;
      }
      if (test::bits(sum) != d.get(i, j)) wrong.add([&] { return std::to_string(i) + "," + std::to_string(j); });
    }
  wrong.require_none("stream-K");
}

TEST_CASE("gemm: layouts and gaps change nothing, and gaps are left alone") {
  for (const char* name : kinds) {
    const DotModel& m = model(name);
    const Problem p = test::make_problem(m, Family::any_bits, 9, 37, 70, 8);
    const Matrix want = test::product(m, {}, Matrices(m, p));
    for (int bits = 0; bits < 16; ++bits)
      for (const std::size_t gap : {std::size_t{0}, std::size_t{3}}) {
        const auto layout = [&](int bit) { return (bits >> bit & 1) != 0 ? Layout::column_major : Layout::row_major; };
        const test::Layouts l{layout(0), layout(1), layout(2), layout(3), gap};
        const Matrix got = test::product(m, {}, Matrices(m, p, l), true, {}, l);
        require_equal(want, got, name);
        CHECK(got.gaps_intact());
      }
  }
}

TEST_CASE("gemm: zero columns of A and rows of B change nothing where products are fused") {
  for (const char* name : {"hopper.mma.f32.f16.f16.k16", "hopper.wgmma.f32.e4m3.e4m3", "hopper.mma.f16.e4m3.e4m3.k32",
                           "ampere.mma.f32.tf32.tf32.k8"})
    for (const Family family : test::families) {
      const DotModel& m = model(name);
      const Problem p = test::make_problem(m, family, 8, 20, 37, 6);
      Problem q = p;
      q.k = 129;
      q.a.assign(q.rows * q.k, 0), q.b.assign(q.cols * q.k, 0);
      for (std::size_t x = 0; x < p.k; ++x) {
        for (std::size_t i = 0; i < p.rows; ++i) q.a[i * q.k + x] = p.a[i * p.k + x];
        for (std::size_t j = 0; j < p.cols; ++j) q.b[j * q.k + x] = p.b[j * p.k + x];
      }
      require_equal(test::product(m, {}, Matrices(m, p)), test::product(m, {}, Matrices(m, q)), name);
    }
}

TEST_CASE("gemm: K = 0 leaves C, or zero") {
  for (const char* name : kinds) {
    const DotModel& m = model(name);
    const Problem p = test::make_problem(m, Family::near_one, 3, 5, 0, 1);
    for (const char* text : {"chain", "promote:128", "split:64", "slice:4"})
      for (const bool with_c : {false, true}) require_expected(m, parse_plan(text), p, with_c, {}, "K = 0");
  }
}

TEST_CASE("gemm: alpha and beta") {
  for (const char* name : kinds)
    for (const auto& [alpha, beta] : {std::pair{1.0f, 0.0f}, {0.5f, 1.0f}, {1.0f, -0.75f}, {-1.3f, 0.1f}, {0.0f, 2.0f}})
      for (const char* text : {"chain", "split:64"})
        for (const Family family : {Family::near_one, Family::any_bits, Family::overflow}) {
          const DotModel& m = model(name);
          GemmOptions o;
          o.alpha = alpha, o.beta = beta;
          const Problem p = test::make_problem(m, family, 4, 18, 128, 12);
          for (const bool with_c : {false, true})
            require_expected(m, parse_plan(text), p, with_c, o,
                             "alpha " + std::to_string(alpha) + ", beta " + std::to_string(beta));
        }
}

TEST_CASE("gemm: every output format is rounded once, from the accumulator") {
  for (const char* name : {"hopper.mma.f32.f16.f16.k16", "hopper.mma.f16.f16.f16.k16", "hopper.mma.f64.f64.f64.k16",
                           "ampere.mma.s32.s8.s8.k32", "software.muladd.bf16.bf16.bf16"})
    for (const test::Row& row : test::rows())
      for (const narrow::Cast& cast : {narrow::Cast{}, narrow::Cast{.rounding = narrow::Rounding::toward_zero,
                                                       .overflow = narrow::Overflow::saturate}}) {
        const DotModel& m = model(name);
        GemmOptions o;
        o.output = row.format, o.output_cast = cast;
        for (const Family family : {Family::near_one, Family::finite, Family::any_bits}) {
          const Problem p = test::make_problem(m, family, 3, 21, 48, 2);
          require_expected(m, parse_plan("split:32"), p, false, o, row.name);
          require_expected(m, {}, p, true, o, row.name);
        }
      }
}

TEST_CASE("gemm: scales of a tensor, of rows and of blocks") {
  test::Dice dice(5);
  const std::size_t k = 300;
  const auto scales = [&](std::size_t lines, std::size_t outer, std::size_t inner, std::vector<float>& store) {
    const std::size_t count =
        (outer == 0 ? 1 : (lines + outer - 1) / outer) * (inner == 0 ? 1 : (k + inner - 1) / inner);
    store.clear();
    for (std::size_t i = 0; i < count; ++i)
      store.push_back(std::ldexp(1.0f + static_cast<float>(dice.below(1000)) / 1000, dice.between(-8, 8)));
    return narrow::OperandScales{store, outer, inner};
  };
  for (const auto& [name, rows, cols] : {std::tuple{"hopper.wgmma.f32.e4m3.e4m3", 131, 6},
                                         {"hopper.wgmma.f32.e4m3.e4m3", 3, 140},
                                         {"hopper.mma.f32.f16.f16.k16", 3, 131}}) {
    const DotModel& m = model(name);
    const auto lines_a = static_cast<std::size_t>(rows), lines_b = static_cast<std::size_t>(cols);
    const Problem p = test::make_problem(m, Family::near_one, lines_a, lines_b, k, 21);
    std::vector<float> store_a, store_b;
    const std::size_t shapes[][4] = {{0, 0, 0, 0},       {1, 0, 1, 0},         {1, 128, 1, 128},
                                     {1, 128, 128, 128}, {128, 128, 128, 128}, {1, 0, 0, 128}};
    for (const auto& [outer_a, inner_a, outer_b, inner_b] : shapes) {
      GemmOptions o;
      o.scale_a = scales(lines_a, outer_a, inner_a, store_a), o.scale_b = scales(lines_b, outer_b, inner_b, store_b);
      const std::string about = std::to_string(outer_a) + "x" + std::to_string(inner_a) + " and " +
                                std::to_string(outer_b) + "x" + std::to_string(inner_b);
      require_expected(m, parse_plan("promote:128"), p, true, o, about);
      require_expected(m, parse_plan("split:64"), p, false, o, about);
      if (inner_a + inner_b == 0) require_expected(m, {}, p, true, o, about);
    }
    GemmOptions one_side;
    one_side.scale_a = scales(lines_a, 1, 0, store_a);
    require_expected(m, {}, p, false, one_side, "A only");
  }
}

TEST_CASE("gemm: TF32 operands are 32-bit words: cut, or rounded before the product") {
  const DotModel& m = model("hopper.mma.f32.tf32.tf32.k8");
  const auto run = [&](Code a, Code b, const char* plan) {
    Matrix x(1, 1, 4), y(1, 1, 4), d(1, 1, 4);
    x.set(0, 0, a), y.set(0, 0, b);
    test::run_gemm(m, parse_plan(plan), x.codes(), y.codes(), {}, d, {});
    return d.get(0, 0);
  };
  CHECK(run(0x7F800001, 0x3F800000, "chain") == 0x7F800000);      // acts as Inf
  CHECK(run(0x7F802000, 0x3F800000, "chain") == 0x7FFFFFFF);      // NaN
  CHECK(run(0x3F801FFF, 0x3F800000, "chain") == 0x3F800000);      // 1
  CHECK(run(0x00001FFF, 0x7F000000, "chain") == 0);               // a subnormal that is cut away
  CHECK(run(0x3F801000, 0x3F800000, "chain,rne") == 0x3F800000);  // a tie to even
  CHECK(run(0x3F803000, 0x3F800000, "chain,rne") == 0x3F804000);
  CHECK(run(0x3F801001, 0x3F800000, "chain,rne") == 0x3F802000);
  CHECK(run(0x3F801000, 0x3F800000, "chain,rna") == 0x3F802000);  // away
  CHECK(run(0x3F803000, 0x3F800000, "chain,rna") == 0x3F804000);
  CHECK(run(0xBF801000, 0x3F800000, "chain,rna") == 0xBF802000);
  CHECK(run(0x3F800FFF, 0x3F800000, "chain,rna") == 0x3F800000);
  CHECK(run(0x7F7FFFFF, 0x3F800000, "chain,rne") == 0x7F800000);

  // Whole products: rounding first and cutting then is cutting words that are already rounded.
  test::Dice dice(3);
  for (const auto& [text, rounding] :
       {std::pair{"chain,rne", narrow::Rounding::nearest_even}, std::pair{"chain,rna", narrow::Rounding::nearest_away},
        std::pair{"chain", narrow::Rounding::toward_zero}}) {
    Matrix a(20, 40, 4), b(40, 35, 4), ra(20, 40, 4), rb(40, 35, 4), d(20, 35, 4), e(20, 35, 4);
    const auto fill = [&, rounded = rounding](Matrix& x, Matrix& y) {
      for (std::size_t i = 0; i < x.rows(); ++i)
        for (std::size_t j = 0; j < x.cols(); ++j) {
          const Code word = test::finite_code(dice, narrow::find_format("fp32").value()) & 0xBFFFFFFF;
          x.set(i, j, word);
          y.set(i, j, oracle::round(test::from_bits<float>(word), m.a.format, {.rounding = rounded}) << 13);
        }
    };
    fill(a, ra), fill(b, rb);
    test::run_gemm(m, parse_plan(text), a.codes(), b.codes(), {}, d, {});
    test::run_gemm(m, {}, ra.codes(), rb.codes(), {}, e, {});
    require_equal(d, e, text);
  }
}

TEST_CASE("gemm: a NaN or Inf stays in its row and column") {
  for (const char* name : {"hopper.mma.f32.f16.f16.k16", "hopper.wgmma.f32.e4m3.e4m3", "software.fma.f32.bf16.bf16",
                           "software.muladd.e5m2.e5m2.e5m2"}) {
    const DotModel& m = model(name);
    Problem p = test::make_problem(m, Family::near_one, 37, 41, 70, 5);
    const Matrix clean = test::product(m, {}, Matrices(m, p));
    p.a[11 * p.k + 3] = m.a.format.nan_code();
    p.b[29 * p.k + 69] = m.b.format.nan_code(m.b.format.has_sign);
    const Matrix d = test::product(m, {}, Matrices(m, p));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < p.rows; ++i)
      for (std::size_t j = 0; j < p.cols; ++j)
        wrong += d.get(i, j) == (i == 11 || j == 29 ? m.accumulator.format.nan_code() : clean.get(i, j)) ? 0 : 1;
    CHECK(wrong == 0);
  }
}

TEST_CASE("gemm: C may have another format") {
  const DotModel& m = model("hopper.mma.f32.f16.f16.k16");
  Problem p = test::make_problem(m, Family::near_one, 7, 20, 40, 5);
  Matrix c(7, 20, 2), wide(7, 20, 4);
  test::Dice dice(1);
  const narrow::Format bf16 = narrow::find_format("bf16").value();
  for (std::size_t i = 0; i < 7; ++i)
    for (std::size_t j = 0; j < 20; ++j) {
      const Code code = test::in_binades(dice, bf16, -3, 3);
      c.set(i, j, code), wide.set(i, j, code << 16);
    }
  const Matrices x(m, p);
  for (const char* text : {"chain", "split:16"}) {
    Matrix d(7, 20, 4), e(7, 20, 4);
    GemmOptions o;
    o.c_format = bf16;
    test::run_gemm(m, parse_plan(text), x.a.codes(), x.b.codes(), c.codes(), d, o);
    test::run_gemm(m, parse_plan(text), x.a.codes(), x.b.codes(), wide.codes(), e, {});
    require_equal(d, e, text);
  }
}

TEST_CASE("gemm: a request that cannot be met is an error of one line") {
  const DotModel& m = model("hopper.mma.f32.f16.f16.k16");
  const auto fails = [](const auto& request) {
    const std::string words = test::error_of(request);
    return !words.empty() && !contains(words, "\n");
  };
  const Matrix a(3, 4, 2), b(4, 5, 2), c(3, 5, 4), wrong_b(5, 5, 2), wrong_c(5, 3, 4), bytes(3, 4, 1);
  Matrix d(3, 5, 4), wrong_d(3, 4, 4), narrow_d(3, 5, 2);
  const auto run = [&](const Matrix& x, const Matrix& y, const Matrix& z, Matrix& out, const char* plan = "chain",
                       const GemmOptions& o = {}) {
    return fails([&] { test::run_gemm(m, parse_plan(plan), x.codes(), y.codes(), z.codes(), out, o); });
  };
  CHECK_FALSE(run(a, b, c, d));
  CHECK(run(a, wrong_b, c, d));
  CHECK(run(a, b, wrong_c, d));
  CHECK(run(a, b, c, wrong_d));
  CHECK(run(a, b, c, narrow_d));
  CHECK(run(bytes, b, c, d));
  CHECK(run(a, b, c, d, "chain,rne"));  // only TF32 has bits to round
  CHECK_FALSE(run(a, b, c, d, "split:4,residue=64"));
  CHECK(run(a, b, c, d, "split:3,residue=64"));    // K would be filled to 21 times its length
  CHECK(run(a, b, c, d, "chain,residue=4096"));
  const float one[] = {1}, two[] = {1, 1};
  GemmOptions o;
  o.scale_a = {two, 1, 0};
  CHECK(run(a, b, c, d, "chain", o));  // three rows, two scales
  o.scale_a = {one, 0, 128};
  CHECK(run(a, b, c, d, "chain", o));  // K is not cut
  o = {};
  o.alpha = std::numeric_limits<float>::infinity();
  CHECK(run(a, b, c, d, "chain", o));
  const std::uint8_t codes[] = {127};
  o = {};
  o.block_a = codes;
  CHECK(run(a, b, c, d, "chain", o));  // no block scales here
  Matrix square(4, 4, 4);
  const narrow::CodeMatrix same = square.codes();
  const DotModel& words = model("software.fma.f32.f32.f32");
  const Matrix left(4, 4, 4), right(4, 4, 4);
  CHECK(fails([&] { test::run_gemm(words, {}, same, left.codes(), {}, square, {}); }));  // D is A
  CHECK(fails([&] { test::run_gemm(words, {}, left.codes(), same, {}, square, {}); }));
  CHECK_FALSE(fails([&] { test::run_gemm(words, {}, left.codes(), right.codes(), same, square, {}); }));  // C is D
  narrow::CodeMatrix turned = same;
  turned.layout = narrow::Layout::column_major;
  CHECK(fails([&] { test::run_gemm(words, {}, left.codes(), right.codes(), turned, square, {}); }));
  narrow::CodeMatrix short_lines = a.codes();
  short_lines.pitch = 2;
  CHECK(fails([&] { test::run_gemm(m, {}, short_lines, b.codes(), {}, d, {}); }));
  narrow::CodeMatrix nothing = a.codes();
  nothing.data = nullptr;
  CHECK(fails([&] { test::run_gemm(m, {}, nothing, b.codes(), {}, d, {}); }));
  CHECK(fails([&] { test::run_gemm(m, {.order = narrow::SumOrder::split}, a.codes(), b.codes(), {}, d, {}); }));
  const DotModel& blocks = model("blackwell.tcgen05.f32.e2m1.e2m1.nvf4");
  const Matrix x(2, 64, 1), y(64, 2, 1);
  Matrix z(2, 2, 4);
  CHECK(
      fails([&] { test::run_gemm(blocks, parse_plan("split:8"), x.codes(), y.codes(), {}, z, {}); }));  // cuts a block
}
