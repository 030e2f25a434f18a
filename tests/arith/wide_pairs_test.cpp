// Formats too wide for all pairs: random and hard ones, in every mode, against the exact result.
#include "arith/check.hpp"
#include "arith/operands.hpp"
#include "narrow/base/parallel.hpp"
#include "support/scale.hpp"

using namespace test;

namespace {

void check_hard_pairs(Op op) {
  const std::vector<Cast> casts = casts_by_rounding();
  const std::uint64_t count = scaled(1u << 18);
  for (const Row& row : rows()) {
    if (row.format.width() <= 8) continue;
    Mismatches mismatches;
    narrow::parallel_parts(count, 1024, 0, [&](std::size_t begin, std::size_t end) {
      for (std::uint64_t i = begin; i < end; ++i) {
        const Pair p = hard_pair(i, row.format);
        check({op, p.a, p.b, 0}, row, casts, mix(i), mismatches);
      }
    });
    mismatches.require_none(row.name);
  }
}

}  // namespace

TEST_CASE("arith: hard sums of wide formats are exact and then rounded once") { check_hard_pairs(Op::add); }
TEST_CASE("arith: hard differences of wide formats are exact and then rounded once") { check_hard_pairs(Op::sub); }
TEST_CASE("arith: hard products of wide formats are exact and then rounded once") { check_hard_pairs(Op::mul); }
TEST_CASE("arith: hard quotients of wide formats are rounded once") { check_hard_pairs(Op::div); }

TEST_CASE("arith: the policies of a cast hold for results of wide formats") {
  const std::vector<Cast> casts = casts_of_every_kind();
  for (const Row& row : rows()) {
    if (row.format.width() <= 8) continue;
    Mismatches mismatches;
    for (std::uint64_t i = 0; i < scaled(1u << 12); ++i)
      for (const Op op : {Op::add, Op::sub, Op::mul, Op::div, Op::sqrt, Op::fma}) {
        const Triple t = hard_triple(i, row.format);
        check({op, t.a, t.b, t.c}, row, casts, mix(i), mismatches);
      }
    mismatches.require_none(row.name);
  }
}
