// Order, minimum and maximum of all pairs of small codes and hard pairs of wide ones; the sign operations on all codes.
#include "narrow/arith/arith.hpp"

#include "arith/check.hpp"
#include "arith/operands.hpp"
#include "support/scale.hpp"

using namespace test;

namespace {

// Inf lies beyond every finite value. Not for NaN.
int order(const Value& a, const Value& b) {
  const auto side = [](const Value& x) { return x.kind == Kind::inf ? (x.negative ? -1 : 1) : 0; };
  if (side(a) != 0 || side(b) != 0) return (side(a) > side(b)) - (side(a) < side(b));
  return oracle::compare(a.exact(), b.exact());
}

// IEEE 754-2019 section 9.6: -0 is less than +0 here.
int order_of_extremes(const Value& a, const Value& b) {
  const int by_value = order(a, b);
  return by_value != 0 ? by_value : static_cast<int>(b.negative) - static_cast<int>(a.negative);
}

bool right(Code a, Code b, const Value& x, const Value& y, const Format& f) {
  using namespace narrow;
  const bool nan_a = x.kind == Kind::nan, nan_b = y.kind == Kind::nan;
  if (nan_a || nan_b) {
    const Code number = nan_a ? b : a, first_nan = nan_a ? a : b;
    return compare(a, b, f) == std::partial_ordering::unordered && minimum(a, b, f) == first_nan &&
           maximum(a, b, f) == first_nan && minimum_number(a, b, f) == number && maximum_number(a, b, f) == number;
  }
  const bool less = order_of_extremes(x, y) < 0, equal = order_of_extremes(x, y) == 0;
  const Code low = less || equal ? a : b, high = less && !equal ? b : a;
  return compare(a, b, f) == (order(x, y) <=> 0) && minimum(a, b, f) == low && maximum(a, b, f) == high &&
         minimum_number(a, b, f) == low && maximum_number(a, b, f) == high;
}

void check_order(Code a, Code b, const Operand& x, const Operand& y, const Row& row, Mismatches& mismatches) {
  if (!right(a, b, x.value, y.value, row.format))
    mismatches.add([&] { return row.name + " " + hex(a) + " " + hex(b); });
}

}  // namespace

TEST_CASE("arith: all pairs up to 8 bits are ordered by value and NaN by neither side") {
  for (const Row& row : rows()) {
    if (row.format.width() > 8) continue;
    const std::vector<Operand> operands = all_operands(row.format);
    Mismatches mismatches;
    for (Code a = 0; a < operands.size(); ++a)
      for (Code b = 0; b < operands.size(); ++b) check_order(a, b, operands[a], operands[b], row, mismatches);
    mismatches.require_none(row.name);
  }
}

TEST_CASE("arith: hard pairs of wide formats are ordered by value") {
  for (const Row& row : rows()) {
    if (row.format.width() <= 8) continue;
    Mismatches mismatches;
    for (std::uint64_t i = 0; i < scaled(1u << 16); ++i) {
      const Pair p = hard_pair(i, row.format);
      check_order(p.a, p.b, operand(p.a, row.format), operand(p.b, row.format), row, mismatches);
    }
    mismatches.require_none(row.name);
  }
}

// The sign bit alone. But fnuz formats have no code for -0, -128 has no opposite in int8, and without a sign there is
// NaN, or 0: for zero, and in integers.
TEST_CASE("arith: negate and absolute change the sign and nothing else") {
  for (const Row& row : small_rows()) {
    const Format& f = row.format;
    Mismatches mismatches;
    for (Code code = 0; code < Code{1} << f.width(); ++code) {
      const Value v = oracle::value_of(code, f);
      const bool signless = (v.kind == Kind::nan || is_zero(v)) && !oracle::has_negative_zero(f);
      Code opposite = signless ? code : code ^ oracle::sign_bit(f);
      if (f.twos_complement) opposite = oracle::round_rational(-v.exact(), false, f);
      const bool ends_at_zero = f.specials == narrow::Specials::none || (f.has_zero && is_zero(v));
      if (!f.has_sign) opposite = ends_at_zero ? 0 : oracle::nan_code(false, f);
      const Code magnitude = v.negative && !signless ? opposite : code;
      if (narrow::negate(code, f) != opposite || narrow::absolute(code, f) != magnitude)
        mismatches.add([&] { return row.name + " " + hex(code); });
    }
    mismatches.require_none(row.name);
  }
}
