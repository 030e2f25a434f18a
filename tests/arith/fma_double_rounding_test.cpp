// Products exactly at the middle of two values plus a tiny c: rounding twice gets these wrong, and this shows it does.
#include <cmath>

#include "arith/check.hpp"

using namespace test;

namespace {

// a = (1 + 2^-m) 2^e and b = 1.5: their product is 1.5 + 2^-m + 2^-(m+1), in units of the last place a half too much.
// c is the smallest value of either sign, so that the exact sum lies just beside the middle; 2 <= m.
std::vector<Question> middles(const Format& f) {
  std::vector<Question> list;
  const Code largest = oracle::largest_magnitude(f, false);
  for (Code a = 1; a <= largest >> f.mantissa_bits; ++a)
    for (const Code sign_a : {Code{0}, oracle::sign_bit(f)})
      for (const Code sign_c : {Code{0}, oracle::sign_bit(f)}) {
        const Code one_and_half = oracle::round_rational({3, 1, -1}, false, f);
        list.push_back({Op::fma, a << f.mantissa_bits | 1 | sign_a, one_and_half, 1 | sign_c});
      }
  return list;
}

Code fused(const Question& q, const Format& f) {
  return expected(Op::fma, operand(q.a, f), operand(q.b, f), operand(q.c, f), f).code(f, {}, 0);
}
// Exact into `middle`, and from there into f: two roundings.
Code through(const Question& q, const Format& f, const Format& middle) {
  const auto value = [&](Code code) { return oracle::value_of(code, f).exact(); };
  const Rational x = value(q.a) * value(q.b) + value(q.c);
  return outcome_of(oracle::value_of(oracle::round_rational(x, false, middle), middle), f).code(f, {}, 0);
}
template <class T>
Code through(const Question& q, const Format& f) {
  const auto value = [&](Code code) { return static_cast<T>(to_double(oracle::value_of(code, f).exact())); };
  return oracle::round(static_cast<T>(value(q.a) * value(q.b) + value(q.c)), f);
}

template <class Other>
std::size_t count_wrong(const Format& f, const Other& other) {
  std::size_t wrong = 0;
  for (const Question& q : middles(f)) wrong += other(q) != fused(q, f) ? 1 : 0;
  return wrong;
}

bool has_middles(const Row& row) {
  // Without mantissa there is no such middle; with fewer than 3 exponent bits no value is tiny beside it; without a
  // sign none is below it.
  return row.format.has_sign && row.format.mantissa_bits >= 2 && row.format.exponent_bits >= 3;
}

}  // namespace

TEST_CASE("arith: a fused multiply-add beside a middle is rounded once") {
  for (const Row& row : rows()) {
    if (!has_middles(row)) continue;
    Mismatches mismatches;
    for (const Question& q : middles(row.format)) check(q, row, casts_of_every_kind(), mix(q.a), mismatches);
    mismatches.require_none(row.name);
  }
}

TEST_CASE("arith: two more bits in between give other codes beside a middle") {
  for (const Row& row : rows()) {
    const int wider = row.format.mantissa_bits + 2;
    if (!has_middles(row) || wider > 52) continue;
    CAPTURE(row.name);
    CHECK(count_wrong(row.format, [&](const Question& q) { return through(q, row.format, narrow::ieee(11, wider)); }) >
          0);
  }
}

TEST_CASE("arith: computing in float or double first gives other codes beside a middle") {
  using namespace narrow;
  for (const Format& f : {"fp16"_fmt, "bf16"_fmt, "e5m2"_fmt, "tf32"_fmt})
    CHECK(count_wrong(f, [&](const Question& q) { return through<float>(q, f); }) > 0);
  for (const Format& f : {"bf16"_fmt, "tf32"_fmt, "fp32"_fmt})
    CHECK(count_wrong(f, [&](const Question& q) { return through<double>(q, f); }) > 0);
}

TEST_CASE("arith: a fused multiply-add is not a multiplication and then an addition") {
  for (const Row& row : rows()) {
    if (!has_middles(row)) continue;
    const Format& f = row.format;
    CAPTURE(row.name);
    std::size_t different = 0;
    for (const Question& q : middles(f))
      different += narrow::fma(q.a, q.b, q.c, f) != narrow::add(narrow::mul(q.a, q.b, f), q.c, f) ? 1 : 0;
    CHECK(different > 0);
  }
}
