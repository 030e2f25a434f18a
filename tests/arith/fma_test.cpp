// a * b + c with one rounding: every triple of the smallest formats, a million hard ones of the others (exhaustive:
// ten).
#include "arith/check.hpp"
#include "arith/operands.hpp"
#include "narrow/base/parallel.hpp"
#include "support/scale.hpp"

using namespace test;

namespace {

#ifdef NARROW_EXHAUSTIVE
constexpr std::uint64_t triples = 10'000'000;
#else
constexpr std::uint64_t triples = 1'000'000;
#endif

}  // namespace

TEST_CASE("arith: a fused multiply-add of any three codes up to 6 bits is rounded once") {
  const std::vector<Cast> casts = casts_of_every_kind();
  for (const Row& row : rows()) {
    if (row.format.width() > 6) continue;
    const std::vector<Operand> operands = all_operands(row.format);
    const std::size_t n = operands.size();
    Mismatches mismatches;
    narrow::parallel_parts(n * n, 64, 0, [&](std::size_t begin, std::size_t end) {
      for (std::size_t ab = begin; ab < end; ++ab)
        for (Code c = 0; c < n; ++c) {
          const Code a = ab / n, b = ab % n;
          check({Op::fma, a, b, c}, operands[a], operands[b], operands[c], row, casts, mix(ab * n + c), mismatches);
        }
    });
    mismatches.require_none(row.name);
  }
}

// One mode a triple: the modes take turns. Rows beyond the table (odd "eXmY") get fewer.
TEST_CASE("arith: hard fused multiply-adds are rounded once") {
  std::vector<std::vector<Cast>> casts;
  for (const Cast& cast : casts_by_rounding()) casts.push_back({cast});
  for (const Row& row : rows()) {
    if (row.format.width() <= 6) continue;
    const bool in_table = narrow::find_row(row.name) != nullptr;
    Mismatches mismatches;
    narrow::parallel_parts(scaled(in_table ? triples : triples / 10), 4096, 0, [&](std::size_t begin, std::size_t end) {
      for (std::uint64_t i = begin; i < end; ++i) {
        const Triple t = hard_triple(i, row.format);
        check({Op::fma, t.a, t.b, t.c}, row, casts[(i / 5) % casts.size()], mix(i), mismatches);
      }
    });
    mismatches.require_none(row.name);
  }
}
