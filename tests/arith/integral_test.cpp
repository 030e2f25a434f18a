// Rounding to an integer: every code (samples of the wide formats) in every mode, against the exact value.
#include "arith/check.hpp"
#include "arith/operands.hpp"
#include "narrow/round/round_to.hpp"
#include "support/scale.hpp"

using namespace test;

namespace {

// Two's complement with quantum 1: the integers, so that the oracle's rounding is rounding to an integer.
constexpr Format integers{0, 60, -59, narrow::Specials::none, true, true, true};

// The integer in the direction of the mode, then what the format makes of it (15.5 may have no integer above).
Code expected_integral(Code code, const Format& f, const Cast& cast, std::uint64_t random) {
  Operand x = operand(code, f);
  if (cast.subnormals == narrow::Subnormals::flush_inputs) x = flushed(x);
  if (x.value.kind == Kind::nan) return oracle::round_nan(x.value.negative, x.payload, f, cast);
  if (x.value.kind == Kind::inf) return oracle::round_inf(x.value.negative, f, cast);
  const Rational& magnitude = x.value.magnitude;
  if (!(magnitude < oracle::power_of_two(53))) return code;  // an integer, whatever the format
  const Cast mode{.rounding = cast.rounding, .random_bits = cast.random_bits};
  const Code whole = oracle::round_rational(x.value.exact(), false, integers, mode, random);
  return oracle::round_rational(oracle::value_of(whole, integers).exact(), x.value.negative, f, cast, random);
}

void check_integral(Code code, const Row& row, const std::vector<Cast>& casts, std::uint64_t random,
                    Mismatches& mismatches) {
  for (const Cast& cast : casts) {
    const Code want = expected_integral(code, row.format, cast, random);
    const Code got = narrow::round_to_integral(code, row.format, cast, random);
    if (got != want)
      mismatches.add([&] {
        return row.name + " " + hex(code) + " " + describe(cast) + ": got " + hex(got) + " and not " + hex(want);
      });
  }
}

}  // namespace

TEST_CASE("arith: every code up to 16 bits goes to the integer that the mode asks for") {
  const std::vector<Cast> casts = casts_of_every_kind();
  for (const Row& row : rows()) {
    if (row.format.width() > 16) continue;
    Mismatches mismatches;
    for (Code code = 0; code < Code{1} << row.format.width(); ++code)
      check_integral(code, row, casts, mix(code), mismatches);
    mismatches.require_none(row.name);
  }
}

TEST_CASE("arith: wide formats go to the integer that the mode asks for") {
  const std::vector<Cast> casts = casts_of_every_kind();
  for (const Row& row : rows()) {
    const Format& f = row.format;
    if (f.width() <= 16) continue;
    Mismatches mismatches;
    for (std::uint64_t i = 0; i < scaled(1u << 15); ++i) {
      Draw draw{mix(i)};
      // Even: exponents where the binary point is inside the significand. Odd: anything.
      const int field = f.bias + draw.between(-3, f.mantissa_bits + 2);
      const Code code = i % 2 == 0 ? make_code(i % 4 == 0, field, mantissa(draw, f), f) : hard_pair(i, f).a;
      check_integral(code, row, casts, mix(i), mismatches);
    }
    mismatches.require_none(row.name);
  }
}

TEST_CASE("arith: an integer that the format lacks follows the overflow rule") {
  using namespace narrow;
  constexpr Format f = "e3m4"_fmt;  // the largest value is 15.5
  constexpr Code largest = f.max_code();
  CHECK(round_to_integral(largest, f) == f.infinity_code());
  CHECK(round_to_integral(largest, f, {.overflow = Overflow::saturate}) == largest);
  CHECK(round_to_integral(largest, f, {.rounding = Rounding::down}) == encode(15.0, f));
}
