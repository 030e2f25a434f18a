// What follows the sum of a product: computed as its words say, and known again by validate().
#include <doctest/doctest.h>

#include <cmath>

#include "dot/values.hpp"
#include "narrow/base/error.hpp"
#include "narrow/round/round_to.hpp"
#include "support/mismatches.hpp"
#include "support/scale.hpp"

using narrow::Code;
using narrow::DotModel;
using narrow::GemmOptions;
using narrow::parse_plan;
using narrow::ValidateRequest;
using narrow::ValidateResult;
using test::all_of;
using test::Family;
using test::fp16;
using test::fp32;
using test::Matrices;
using test::Matrix;
using test::says;
using test::Values;

TEST_CASE("gemm: a function is applied to the sum in FP32 or to the sum as the output holds it") {
  const narrow::EpilogueFunction functions[] = {{"relu", [](float x) { return x <= 0 ? 0.0f : x; }},
                                                {"bend", [](float x) { return x / (1 + x * x) - 0.25f * x; }}};
  for (const char* name : {"hopper.mma.f32.f16.f16.k16", "hopper.wgmma.f32.e4m3.e4m3", "software.fma.f32.bf16.bf16",
                           "hopper.mma.f16.f16.f16.k16", "hopper.mma.s32.s8.s8.k32"})
    for (const char* out : {"fp16", "bf16", "fp32"})
      for (const char* text : {"chain", "split:64", "promote:64", "chain,c=last", "split:48,pairwise"})
        for (const bool with_c : {false, true})
          for (const auto& function : functions) {
            const DotModel& m = *narrow::find_dot_model(name);
            const Matrices x(m, test::make_problem(m, Family::near_one, 5, 18, 150, 9));
            GemmOptions plain, wide, fused, apart;
            plain.output = fused.output = apart.output = narrow::find_format(out).value(), wide.output = fp32;
            fused.function = apart.function = function, apart.rounds_before = true;
            GemmOptions slow = fused;
            slow.one_by_one = true;
            const auto by = [&](const GemmOptions& o) { return test::product(m, parse_plan(text), x, with_c, o); };
            const Matrix rounded = by(plain), sums = by(wide), one = by(fused), two = by(apart), singly = by(slow);
            test::Mismatches wrong;
            for (std::size_t i = 0; i < one.rows(); ++i)
              for (std::size_t j = 0; j < one.cols(); ++j) {
                const auto of = [&](Code code, const narrow::Format& f) {
                  return narrow::encode(function.of(static_cast<float>(narrow::decode(code, f))), *plain.output);
                };
                const Code want = of(sums.get(i, j), fp32), want_apart = of(rounded.get(i, j), *plain.output);
                if (one.get(i, j) != want || singly.get(i, j) != want || two.get(i, j) != want_apart)
                  wrong.add([&] {
                    return test::hex(one.get(i, j)) + ", " + test::hex(want) + "; " + test::hex(two.get(i, j)) + ", " +
                           test::hex(want_apart);
                  });
              }
            wrong.require_none(std::string(name) + ", " + text + ", " + out + ", " + std::string(function.name));
          }
  // Sums in FP64 have none, and the error of a function is not that of a product.
  const DotModel& wide = *narrow::find_dot_model("hopper.mma.f64.f64.f64.k4");
  const Matrices x(wide, test::make_problem(wide, Family::near_one, 2, 2, 8, 1));
  GemmOptions o;
  o.function = functions[0];
  CHECK_THROWS_AS(test::product(wide, parse_plan("chain"), x, false, o), narrow::Error);
}

TEST_CASE("validate: a function of the sum is exact where it was asked for and told where it is missing or elsewhere") {
  if (test::scale() < 0.1) return;  // a search costs a second, and many times that under a sanitizer
  const narrow::EpilogueFunction by_name[] = {
      {"gelu", [](float x) { return 0.5f * x * (1 + std::erf(x * 0.70710678f)); }},
      {"relu", [](float x) { return x <= 0 ? 0.0f : x; }}};
  const char* const model = "hopper.wgmma.f32.f16.f16";
  for (const auto& function : by_name) {
    Values v(24, 40, 160, fp16, 0.2);
    const auto make = [&](const narrow::EpilogueFunction& f, bool rounds_before) {
      narrow::GemmOptions o;
      o.output = fp16, o.c_format = fp32, o.function = f, o.rounds_before = rounds_before;
      test::run_gemm(*narrow::find_dot_model(model), parse_plan("split:64"), v.a.codes(), v.b.codes(), v.c.codes(),
                     v.d, o);
    };
    const auto ask = [&](const narrow::EpilogueFunction& f, bool rounds_before) {
      ValidateRequest r = v.request(true);
      r.options.function = f, r.options.rounds_before = rounds_before, r.model = narrow::find_dot_model(model);
      return narrow::validate(r);
    };
    CAPTURE(function.name);
    for (const bool apart : {false, true}) {
      if (apart && function.name == "relu") continue;
      CAPTURE(apart);
      make(function, apart);
      const ValidateResult as_asked = ask(function, apart);
      CAPTURE(all_of(as_asked));
      CHECK(as_asked.exact);
      CHECK(as_asked.suspicions.empty());
      CHECK(std::any_of(as_asked.candidates.begin(), as_asked.candidates.end(),
                        [](const auto& c) { return c.plan == parse_plan("split:64"); }));
      if (!apart) {
        const ValidateResult not_asked = ask({}, false);
        CHECK_FALSE(not_asked.exact);
        CHECK(not_asked.relation == function.name);
      }
      if (function.name == "gelu") {  // relu of a rounded sum is the rounded relu
        const ValidateResult elsewhere = ask(function, !apart);
        CAPTURE(all_of(elsewhere));
        CHECK_FALSE(elsewhere.exact);
        CHECK(elsewhere.relation == (apart ? "gelu of the rounded sum" : "gelu of the sum"));
        CHECK(says(elsewhere, "gives every bit"));
      }
    }
    make({}, false);
    const ValidateResult missing = ask(function, false);
    CAPTURE(all_of(missing));
    CHECK_FALSE(missing.exact);
    CHECK(missing.relation == "missing " + std::string(function.name));
    CHECK(says(missing, "gives every bit"));
    if (function.name == "relu") continue;
    make(by_name[1], false);
    const ValidateResult other = ask(function, false);
    CAPTURE(all_of(other));
    CHECK(other.relation == "relu");
  }
  // Sums in FP64 have no function: said where they are the only ones, and no error where one of them explains D.
  const narrow::Format fp64 = narrow::find_format("fp64").value();
  const Matrix one(4, 4, 8);
  ValidateRequest r;
  r.a = r.b = r.d = one.codes(), r.a_format = r.b_format = r.d_format = fp64;
  r.options.function = by_name[0];
  CHECK_THROWS_WITH_AS(narrow::validate(r), doctest::Contains("FP64"), narrow::Error);
  Values v(24, 24, 96, fp32, 0.2);
  v.make([&](std::size_t i, std::size_t j) { return v.product(i, j); });  // summed in double, from both ends
  r = v.request();
  r.options.function = by_name[0];
  CHECK(narrow::validate(r).relation == "missing gelu");
}
