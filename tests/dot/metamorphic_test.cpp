// What must hold without any model: orders inside a step, signs, powers of two, zeros. And what must not.
#include <doctest/doctest.h>

#include "dot/problems.hpp"
#include "narrow/dot/dot.hpp"
#include "support/mismatches.hpp"
#include "support/scale.hpp"

using narrow::Code;
using narrow::DotModel;
using narrow::DotRule;
using test::Family;
using test::Problem;

namespace {

Code by_dot(const DotModel& m, const Problem& p) {
  return m.is_block_scaled() ? narrow::dot_scaled(m, p.a, p.b, p.scale_a, p.scale_b, p.c[0])
                             : narrow::dot(m, p.a, p.b, p.c[0]);
}

std::vector<const DotModel*> rows_with(std::initializer_list<DotRule> rules) {
  std::vector<const DotModel*> list;
  for (const DotModel* m : test::distinct_models())
    if (std::find(rules.begin(), rules.end(), m->rule) != rules.end()) list.push_back(m);
  return list;
}

// Products that the model may add in any order stand in one group.
std::size_t group_of(const DotModel& m, std::size_t k) {
  const std::size_t step = static_cast<std::size_t>(m.products_per_step);
  switch (m.rule) {
    case DotRule::fused_pair_then_add: return k / static_cast<std::size_t>(m.instruction_k) * 2 + k % 4 / 2;
    case DotRule::two_stage_halves: return k / step * 2 + k % 2;
    case DotRule::block_fused: return k / static_cast<std::size_t>(m.scale_block);
    case DotRule::block_groups: return k / 16;
    case DotRule::integer_saturating: return k / static_cast<std::size_t>(m.instruction_k);
    default: return k / step;
  }
}

void shuffle_within_groups(const DotModel& m, Problem& p, test::Dice& dice) {
  for (std::size_t i = p.k; i-- > 1;) {
    std::vector<std::size_t> same;
    for (std::size_t j = 0; j <= i; ++j)
      if (group_of(m, j) == group_of(m, i)) same.push_back(j);
    const std::size_t j = same[static_cast<std::size_t>(dice.below(static_cast<int>(same.size())))];
    std::swap(p.a[i], p.a[j]);
    std::swap(p.b[i], p.b[j]);
  }
}

const std::initializer_list<DotRule> fused_rules = {
    DotRule::fused, DotRule::fused_pair_then_add, DotRule::block_fused, DotRule::block_groups};
const std::initializer_list<DotRule> stepwise_rules = {DotRule::fused,
                                                       DotRule::fused_pair_then_add,
                                                       DotRule::block_fused,
                                                       DotRule::block_groups,
                                                       DotRule::integer,
                                                       DotRule::integer_saturating,
                                                       DotRule::exact,
                                                       DotRule::two_stage,
                                                       DotRule::two_stage_halves};

std::size_t two_instructions(const DotModel& m) { return 2 * static_cast<std::size_t>(m.instruction_k); }

// Runs change() on copies of problems of every family; the result must be expected(result before).
template <class Change, class Expected>
void require_same(std::initializer_list<DotRule> rules, const char* what, const Change& change,
                  const Expected& expected) {
  const std::uint64_t each = test::scaled(40, 4);
  for (const DotModel* m : rows_with(rules)) {
    test::Mismatches wrong;
    for (const Family family : test::families)
      for (std::uint64_t n = 0; n < each; ++n) {
        const Problem p = test::make_problem(*m, family, 1, 1, two_instructions(*m), n * 17 + 5);
        Problem q = p;
        test::Dice dice(n);
        if (!change(*m, q, dice, family)) continue;
        const Code before = by_dot(*m, p), want = expected(*m, before), got = by_dot(*m, q);
        if (want != got)
          wrong.add([&] {
            return std::string(test::name(family)) + " " + std::to_string(n) + ": " + test::hex(before) + " became " +
                   test::hex(got);
          });
      }
    wrong.require_none(std::string(what) + ", " + std::string(m->name.view()));
  }
}
Code unchanged(const DotModel&, Code d) { return d; }

// An operand times 2^s; false where the format cannot hold it.
bool times_power(Code& code, const narrow::Format& f, int s) {
  const oracle::Value v = oracle::value_of(code, f);
  if (v.kind != oracle::Kind::finite || v.magnitude.is_zero()) return true;
  const Code field = (code & oracle::below_sign(f)) >> f.mantissa_bits;
  if (field == 0) return false;
  const int e = static_cast<int>(field) - f.bias + s;
  if (e < oracle::min_exponent(f) || e >= test::max_exponent(f)) return false;
  code = static_cast<Code>(static_cast<std::int64_t>(code) + s * (std::int64_t{1} << f.mantissa_bits));
  return true;
}

}  // namespace

TEST_CASE("dot: products of one step may come in any order") {
  require_same(
      stepwise_rules, "permuted",
      [](const DotModel& m, Problem& p, test::Dice& dice, Family) {
        shuffle_within_groups(m, p, dice);
        return true;
      },
      unchanged);
}

TEST_CASE("dot: the operands may change their roles") {
  const std::uint64_t each = test::scaled(40, 4);
  for (const DotModel* m : rows_with(stepwise_rules)) {
    if (!(m->a.format == m->b.format)) continue;
    test::Mismatches wrong;
    for (const Family family : test::families)
      for (std::uint64_t n = 0; n < each; ++n) {
        const Problem p = test::make_problem(*m, family, 1, 1, two_instructions(*m), n);
        Problem q = p;
        std::swap(q.a, q.b), std::swap(q.scale_a, q.scale_b);
        if (by_dot(*m, p) != by_dot(*m, q))
          wrong.add([&] { return std::string(test::name(family)) + " " + std::to_string(n); });
      }
    wrong.require_none(std::string(m->name.view()));
  }
}

TEST_CASE("dot: a negated A and C negate D, zeros and NaN aside") {
  const std::initializer_list<DotRule> rules = {DotRule::fused,          DotRule::fused_pair_then_add,
                                                DotRule::block_fused,
                                                DotRule::block_groups,   DotRule::exact};
  require_same(
      rules, "negated",
      [](const DotModel& m, Problem& p, test::Dice&, Family) {
        for (Code& x : p.a) x = test::negated(x, m.a.format);
        p.c[0] = test::negated(p.c[0], m.accumulator.format);
        return true;
      },
      [](const DotModel& m, Code d) {
        const auto& f = m.accumulator.format;
        return oracle::value_of(d, f).kind == oracle::Kind::nan || (d & oracle::below_sign(f)) == 0
                   ? d
                   : d ^ oracle::sign_bit(f);
      });
}

TEST_CASE("dot: CDNA 3 floors, so there a negated A does not always negate D") {
  for (const DotModel* m : rows_with({DotRule::two_stage, DotRule::two_stage_halves})) {
    bool witness = false;
    for (std::uint64_t n = 0; n < 4000 && !witness; ++n) {
      const Problem p = test::make_problem(*m, Family::window, 1, 1, static_cast<std::size_t>(m->products_per_step), n);
      Problem q = p;
      for (Code& x : q.a) x = test::negated(x, m->a.format);
      q.c[0] = test::negated(q.c[0], m->accumulator.format);
      const Code d = by_dot(*m, p), e = by_dot(*m, q);
      witness = d != 0 && e != (d ^ oracle::sign_bit(m->accumulator.format));
    }
    CHECK_MESSAGE(witness, std::string(m->name.view()));
  }
}

TEST_CASE("dot: powers of two on A and C move D, away from the ends of the range") {
  const std::initializer_list<DotRule> rules = {DotRule::fused, DotRule::fused_pair_then_add,
                                                DotRule::exact, DotRule::two_stage};
  for (const DotModel* m : rows_with(rules)) {
    if (m->a.format.exponent_bits < 5) continue;  // no room to move
    std::uint64_t compared = 0;
    test::Mismatches wrong;
    for (std::uint64_t n = 0; n < test::scaled(200, 20); ++n) {
      const Problem p = test::make_problem(*m, Family::near_one, 1, 1, two_instructions(*m), n);
      for (const int s : {-3, 1, 4}) {
        Problem q = p;
        bool fits = times_power(q.c[0], m->accumulator.format, s);
        for (Code& x : q.a) fits = fits && times_power(x, m->a.format, s);
        Code want = by_dot(*m, p);
        // What is far below 1 would reach FP16's subnormals.
        const auto& f = m->accumulator.format;
        fits = fits && oracle::value_of(want, f).kind == oracle::Kind::finite;
        fits = fits && static_cast<int>((want & oracle::below_sign(f)) >> f.mantissa_bits) > f.bias - 6;
        fits = fits && times_power(want, f, s);
        if (!fits) continue;
        ++compared;
        const Code got = by_dot(*m, q);
        if (want != got)
          wrong.add([&] {
            return std::to_string(n) + " by 2^" + std::to_string(s) + ": " + test::hex(want) + ", " + test::hex(got);
          });
      }
    }
    wrong.require_none(std::string(m->name.view()));
    CHECK_MESSAGE(compared > 10, std::string(m->name.view()));
  }
}

TEST_CASE("dot: zero products inside a step and zero steps after the last change nothing") {
  require_same(
      fused_rules, "zeros moved",
      [](const DotModel& m, Problem& p, test::Dice&, Family) {
        // The last product of the second instruction is dropped on both sides; so is what follows it here.
        p.a.back() = 0, p.b.back() = 0;
        const auto block = static_cast<std::size_t>(std::max(m.scale_block, 1));
        p.a.resize(p.k + 2 * static_cast<std::size_t>(m.instruction_k) + block), p.b.resize(p.a.size());
        const std::size_t blocks = (p.a.size() + block - 1) / block;
        if (m.is_block_scaled()) {
          p.scale_a.resize(blocks, static_cast<Code>(m.scale.bias) << m.scale.mantissa_bits);
          p.scale_b.resize(blocks, static_cast<Code>(m.scale.bias) << m.scale.mantissa_bits);
        }
        // Compare with the plain problem whose last product is zero: make that so by comparing against itself.
        Problem plain = p;
        plain.a.resize(p.k), plain.b.resize(p.k);
        if (m.is_block_scaled()) plain.scale_a.resize(p.blocks(m)), plain.scale_b.resize(p.blocks(m));
        const Code long_one = by_dot(m, p), short_one = by_dot(m, plain);
        CHECK(long_one == short_one);
        plain.a.pop_back(), plain.b.pop_back();
        const bool same_blocks = (plain.a.size() + block - 1) / block == p.blocks(m);
        if (same_blocks || !m.is_block_scaled()) CHECK(by_dot(m, plain) == short_one);
        return false;
      },
      unchanged);
}

TEST_CASE("dot: the order of steps matters where results are rounded in between, and nowhere else") {
  for (const DotModel* m : rows_with(stepwise_rules)) {
    const std::size_t step =
        static_cast<std::size_t>(m->rule == DotRule::fused ? m->products_per_step : m->instruction_k);
    bool matters = false;
    for (std::uint64_t n = 0; n < 3000 && !matters; ++n) {
      const Family family = m->is_integer() ? Family::overflow : n % 2 == 0 ? Family::near_one : Family::ties;
      Problem p = test::make_problem(*m, family, 1, 1, 2 * step, n);
      if (m->rule == DotRule::integer_saturating)  // opposite steps, so that the first may clamp
        for (std::size_t i = 0; i < 2 * step; ++i) {
          p.a[i] = i < step ? 0x7F : m->a.format.has_sign ? 0x80 : 0;
          p.b[i] = 0x7F;
          p.c[0] = 0x7FFFFFFF;
        }
      Problem q = p;
      std::rotate(q.a.begin(), q.a.begin() + static_cast<std::ptrdiff_t>(step), q.a.end());
      std::rotate(q.b.begin(), q.b.begin() + static_cast<std::ptrdiff_t>(step), q.b.end());
      const auto blocks = static_cast<std::ptrdiff_t>(q.scale_a.size() / 2);
      std::rotate(q.scale_a.begin(), q.scale_a.begin() + blocks, q.scale_a.end());
      std::rotate(q.scale_b.begin(), q.scale_b.begin() + blocks, q.scale_b.end());
      matters = by_dot(*m, p) != by_dot(*m, q);
    }
    // The clamp is seen where a step can take back what another one added: not with unsigned bytes in the A of this
    // test.
    const bool clamps = m->rule != DotRule::integer_saturating || m->a.format.has_sign;
    CHECK_MESSAGE(matters == (m->rule != DotRule::integer && clamps), std::string(m->name.view()));
  }
}
