// From any format to any other with one rounding: all codes up to 16 bits, samples of the wide formats, every mode.
#include "arith/check.hpp"
#include "arith/operands.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/round/round_to.hpp"
#include "support/scale.hpp"

using namespace test;

namespace {

void check_convert(Code code, const Operand& x, const Row& from, const Row& to, const std::vector<Cast>& casts,
                   std::uint64_t random, Mismatches& mismatches) {
  const auto outcome = [&](const Operand& o) {
    if (o.value.kind == Kind::nan)
      return Outcome{.kind = Kind::nan, .negative = o.value.negative, .payload = o.payload};
    return outcome_of(o.value, to.format);
  };
  const Outcome kept = outcome(x);
  for (const Cast& cast : casts) {
    const bool flush = x.subnormal && cast.subnormals == narrow::Subnormals::flush_inputs;
    const Code want = (flush ? outcome(flushed(x)) : kept).code(to.format, cast, random);
    const Code got = narrow::convert(code, from.format, to.format, cast, random);
    if (got != want)
      mismatches.add([&] {
        return from.name + " " + hex(code) + " to " + to.name + " " + describe(cast) + ": got " + hex(got) +
               " and not " + hex(want);
      });
  }
}

// Codes 0 .. count - 1 through code_of, to every format.
template <class CodeOf>
void check_from(const Row& from, std::uint64_t count, const CodeOf& code_of) {
  const std::vector<Cast> casts = from.format.width() <= 8 ? casts_of_every_kind() : casts_by_rounding();
  Mismatches mismatches;
  narrow::parallel_parts(count, 256, 0, [&](std::size_t begin, std::size_t end) {
    for (std::uint64_t i = begin; i < end; ++i) {
      const Code code = code_of(i);
      const Operand x = operand(code, from.format);
      for (const Row& to : rows()) check_convert(code, x, from, to, casts, mix(i), mismatches);
    }
  });
  mismatches.require_none(from.name);
}

}  // namespace

TEST_CASE("arith: every code up to 16 bits converts to every format with one rounding") {
  for (const Row& from : rows())
    if (from.format.width() <= 16)
      check_from(from, std::uint64_t{1} << from.format.width(), [](std::uint64_t i) { return i; });
}

TEST_CASE("arith: codes of wide formats convert to every format with one rounding") {
  for (const Row& from : rows())
    if (from.format.width() > 16)
      check_from(from, scaled(1u << 15), [&](std::uint64_t i) { return hard_pair(i, from.format).a; });
}

TEST_CASE("arith: a code converted from fp32 or fp64 is the code of the float or double") {
  using namespace narrow;
  for (const Row& to : rows()) {
    CAPTURE(to.name);
    std::size_t different = 0;
    for (std::uint64_t i = 0; i < scaled(1u << 13); ++i)
      for (const Cast& cast : casts_of_every_kind()) {
        const double d = spread<double>(i, to.format);
        const float s = spread<float>(i, to.format);
        different +=
            convert(bits(d), "fp64"_fmt, to.format, cast, mix(i)) != encode(d, to.format, cast, mix(i)) ? 1 : 0;
        different +=
            convert(bits(s), "fp32"_fmt, to.format, cast, mix(i)) != encode(s, to.format, cast, mix(i)) ? 1 : 0;
      }
    CHECK(different == 0);
  }
}
