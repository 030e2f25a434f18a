// Does an output under many plans at once get the bits that gemm() gives it?
#include "narrow/dot/under_plans.hpp"

#include <doctest/doctest.h>

#include <set>

#include "dot/matrices.hpp"
#include "narrow/dot/gemm_checks.hpp"
#include "support/mismatches.hpp"
#include "support/scale.hpp"

using narrow::Code;
using narrow::DotModel;
using test::Matrix;

TEST_CASE("plans side by side: every model gets the bits of gemm") {
  const char* texts[] = {"chain",
                         "chain,c=last",
                         "promote:128",
                         "promote:64",
                         "split:64",
                         "split:96",
                         "split:32,pairwise",
                         "split:64,reversed",
                         "split:80",
                         "slice:2,run=32",
                         "slice:4",
                         "even:3,run=32",
                         "even:5,run=16,reversed",
                         "chain,residue=32",
                         "split:64,residue=32",
                         "streamk:3,tile=16x16x32",
                         "split:16",
                         "split:48",
                         "split:112",
                         "split:40,halving",
                         "slice:6,halving,run=8",
                         "blocks:16,run=2",
                         "split:40,residue=16",
                         "split:40,residue=16,c=first",
                         "split:40,stored,residue=16,c=after",
                         "split:40,serial,residue=16,c=first",
                         "split:40,output,residue=16",
                         "chain,c=after"};
  test::Mismatches wrong;
  std::vector<const DotModel*> seen;
  std::set<std::pair<narrow::detail::EngineKind, narrow::DotRule>> tried;  // each has lanes, or none, of its own
  test::Dice dice(7);
  for (const DotModel& m : narrow::dot_models()) {
    if (std::any_of(seen.begin(), seen.end(), [&](const DotModel* x) { return narrow::same_arithmetic(*x, m); })) continue;
    seen.push_back(&m);
    if (!tried.insert({narrow::detail::engine_of(m), m.rule}).second && test::scale() < 0.5 && seen.size() % 8 != 0) continue;
    const std::size_t k = 230;
    // Ordinary numbers, and a row with an Inf or NaN among them where the format has one.
    Matrix a(3, k, test::code_bytes(m.a.format)), b(k, 2, test::code_bytes(m.b.format)), c(3, 2, test::code_bytes(m.accumulator.format));
    const auto code = [&](const narrow::Format& f, bool special) {
      if (f.is_integer()) return dice.bits() & f.code_mask();
      const Code x = special && f.has_nan() ? f.nan_code() - (dice.one_in(2) && f.has_infinity() ? (f.nan_code() & f.mantissa_mask()) : 0)
                                            : test::code_of(f, dice.one_in(2), dice.between(-4, 1), dice.bits());
      return test::is_tf32(f) ? x << 13 : x;
    };
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t n = 0; n < k; ++n) a.set(i, n, code(m.a.format, i == 2 && n == 100));
    for (std::size_t n = 0; n < k; ++n)
      for (std::size_t j = 0; j < 2; ++j) b.set(n, j, code(m.b.format, false));
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 2; ++j) c.set(i, j, code(m.accumulator.format, false));
    for (int round = 0; round < 4; ++round) {
      // With and without C; D in the accumulator's format and, where that is FP32, in a narrower one.
      const bool with_c = round % 2 != 0;
      const narrow::Format out = round >= 2 && m.accumulator.format == narrow::find_format("fp32")
                                     ? narrow::find_format("bf16").value()
                                     : m.accumulator.format;
      narrow::GemmOptions options;
      options.output = out;
      const narrow::CodeMatrix av = a.codes(), bv = b.codes(), cv = with_c ? c.codes() : narrow::CodeMatrix{};
      std::vector<narrow::Plan> plans;
      for (const char* text : texts)
        if (narrow::Plan p = narrow::parse_plan(text); (!m.is_block_scaled() || p.order == narrow::SumOrder::chain) &&
                                                       narrow::detail::plan_problem(m, p, options).empty())
          plans.push_back(p);
      for (std::size_t i = 0; i < 3; ++i) {
        const narrow::Plan first;
        const narrow::detail::Product p{m, first, av, bv, cv, options, out, m.accumulator.format, 3, 2, k};
        const narrow::detail::OutputUnderPlans output(p, i, 1);
        std::vector<narrow::detail::ChainPlan> chains;
        std::vector<const narrow::detail::ChainPlan*> pointers;
        for (const narrow::Plan& plan : plans) chains.push_back(narrow::detail::chain_plan(plan, m, k, 3, 2, i, 1));
        for (const auto& chain : chains) pointers.push_back(&chain);
        std::vector<Code> got(plans.size());
        output.codes(pointers, got);
        for (std::size_t n = 0; n < plans.size(); ++n) {
          Matrix d(3, 2, test::code_bytes(out));
          test::run_gemm(m, plans[n], av, bv, cv, d, options);
          if (d.get(i, 1) != got[n])
            wrong.add([&] {
              return std::string(m.name.view()) + " " + narrow::plan_text(plans[n]) + " row " + std::to_string(i) +
                     (with_c ? " with C" : "") + ": gemm " + test::hex(d.get(i, 1)) + ", here " + test::hex(got[n]);
            });
        }
      }
    }
  }
  wrong.require_none("outputs under plans");
}
