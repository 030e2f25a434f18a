// Every pair of codes of every format of 8 bits or less, in every mode and policy, against the exact result.
#include "arith/check.hpp"
#include "narrow/base/parallel.hpp"

using namespace test;

namespace {

void check_all_pairs(Op op) {
  const std::vector<Cast> casts = casts_of_every_kind();
  for (const Row& row : rows()) {
    if (row.format.width() > 8) continue;
    const std::vector<Operand> operands = all_operands(row.format);
    Mismatches mismatches;
    narrow::parallel_parts(operands.size(), 4, 0, [&](std::size_t begin, std::size_t end) {
      for (Code a = begin; a < end; ++a)
        for (Code b = 0; b < operands.size(); ++b)
          check({op, a, b, 0}, operands[a], operands[b], {}, row, casts, mix(a << 8 | b), mismatches);
    });
    mismatches.require_none(row.name);
  }
}

}  // namespace

TEST_CASE("arith: the sum of any two codes up to 8 bits is exact and then rounded once") { check_all_pairs(Op::add); }
TEST_CASE("arith: the difference of any two codes up to 8 bits is exact and then rounded once") {
  check_all_pairs(Op::sub);
}
TEST_CASE("arith: the product of any two codes up to 8 bits is exact and then rounded once") {
  check_all_pairs(Op::mul);
}
TEST_CASE("arith: the quotient of any two codes up to 8 bits is rounded once") { check_all_pairs(Op::div); }
