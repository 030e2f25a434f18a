// Square roots: all codes where they can be visited, hard ones else, in every mode.
#include "arith/check.hpp"
#include "arith/operands.hpp"
#include "narrow/base/parallel.hpp"
#include "support/scale.hpp"

using namespace test;

namespace {

template <class CodeOf>
void check_roots(const Row& row, std::uint64_t count, const std::vector<Cast>& casts, const CodeOf& code_of) {
  Mismatches mismatches;
  narrow::parallel_parts(count, 1024, 0, [&](std::size_t begin, std::size_t end) {
    for (std::uint64_t i = begin; i < end; ++i) {
      const Code a = code_of(i);
      check({Op::sqrt, a, 0, 0}, row, casts, mix(i), mismatches);
    }
  });
  mismatches.require_none(row.name);
}

// The square of a value with half the significand bits, and its neighbours: exact roots and near misses.
Code near_square(std::uint64_t index, const Format& f) {
  Draw draw{mix(index)};
  const int half_bits = (f.mantissa_bits + 1) / 2;
  const Rational x{oracle::Integer(draw.below(std::uint64_t{1} << half_bits) + 1), 1, draw.between(-half_bits - 3, 3)};
  const Code square = oracle::round_rational(x * x, false, f);
  return (square + draw.below(3) - 1) & oracle::ones(oracle::width(f));
}

}  // namespace

TEST_CASE("arith: the square root of every code up to 16 bits is rounded once") {
  const std::vector<Cast> casts = casts_of_every_kind();
  for (const Row& row : rows())
    if (row.format.width() <= 16)
      check_roots(row, std::uint64_t{1} << row.format.width(), casts, [](std::uint64_t i) { return i; });
}

TEST_CASE("arith: hard square roots of wide formats are rounded once") {
  const std::vector<Cast> casts = casts_by_rounding();
  for (const Row& row : rows()) {
    if (row.format.width() <= 16) continue;
    check_roots(row, scaled(1u << 16), casts, [&](std::uint64_t i) {
      return i % 2 == 0 ? near_square(i, row.format) : hard_pair(i / 2, row.format).a;
    });
  }
}
