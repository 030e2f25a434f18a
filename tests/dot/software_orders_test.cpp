// The orders of software against plain loops of float and double: the same roundings by the CPU.
#include <doctest/doctest.h>

#include <cmath>

#include "dot/problems.hpp"
#include "narrow/dot/dot.hpp"
#include "support/dot_oracle.hpp"
#include "support/mismatches.hpp"
#include "support/scale.hpp"

using narrow::Code;
using narrow::DotModel;
using narrow::Unit;

namespace {

template <class T>
T pairwise(std::vector<T> x) {
  while (x.size() > 1) {
    std::vector<T> next;
    for (std::size_t i = 0; i < x.size(); i += 2) next.push_back(i + 1 < x.size() ? x[i] + x[i + 1] : x[i]);
    x = next;
  }
  return x[0];
}

template <class T>
T by_loop(Unit unit, const std::vector<T>& a, const std::vector<T>& b, T c) {
  T lost = 0;
  std::vector<T> products;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const T p = a[k] * b[k];
    products.push_back(p);
    if (unit == Unit::fma) c = std::fma(a[k], b[k], c);
    if (unit == Unit::muladd) c = c + p;
    if (unit == Unit::kahan) {
      const T y = p - lost, t = c + y, grown = t - c;
      lost = grown - y;
      c = t;
    }
  }
  return unit == Unit::pairwise ? pairwise(products) + c : c;
}

template <class T>
void compare(const char* type) {
  for (const Unit unit : {Unit::fma, Unit::muladd, Unit::pairwise, Unit::kahan}) {
    const narrow::DotType t{type, narrow::find_format(type).value()};
    const DotModel m = narrow::software_model(unit, t, t, t);
    test::Mismatches wrong;
    for (const test::Family family : test::families)
      for (std::uint64_t n = 0; n < test::scaled(300, 20); ++n) {
        const auto p = test::make_problem(m, family, 1, 1, 1 + n % 40, n);
        std::vector<T> a, b;
        for (const Code x : p.a) a.push_back(test::from_bits<T>(x));
        for (const Code x : p.b) b.push_back(test::from_bits<T>(x));
        const T want = by_loop<T>(unit, a, b, test::from_bits<T>(p.c[0]));
        const Code got = narrow::dot(m, p.a, p.b, p.c[0]);
        const bool same = std::isnan(want) ? got == t.format.nan_code() : test::bits(want) == got;
        if (!same)
          wrong.add([&] {
            return std::string(test::name(family)) + " " + std::to_string(n) + ": CPU " + test::hex(test::bits(want)) +
                   ", dot " + test::hex(got);
          });
      }
    wrong.require_none(std::string(m.name.view()));
  }
}

}  // namespace

TEST_CASE("dot: the software orders of FP32 are what a loop of floats computes") { compare<float>("fp32"); }
TEST_CASE("dot: the software orders of FP64 are what a loop of doubles computes") { compare<double>("fp64"); }

TEST_CASE("dot: a software order rounds after every operation in any format") {
  const auto type = [](const char* name) { return narrow::DotType{name, narrow::find_format(name).value()}; };
  for (const char* acc : {"bf16", "fp16", "e4m3", "e5m2", "e2m1", "e6m9", "fp32", "tf32"})
    for (const char* in : {"fp16", "e4m3", "e5m2fnuz", "bf16"})
      for (const Unit unit : {Unit::fma, Unit::muladd, Unit::pairwise, Unit::kahan}) {
        const DotModel m = narrow::software_model(unit, type(acc), type(in), type("bf16"));
        test::Mismatches wrong;
        for (const test::Family family : test::families)
          for (std::uint64_t n = 0; n < test::scaled(15, 3); ++n) {
            const auto p = test::make_problem(m, family, 1, 1, 1 + n % 20, n);
            const Code want = oracle::dot(m, p.a, p.b, p.c[0]), got = narrow::dot(m, p.a, p.b, p.c[0]);
            if (want != got)
              wrong.add(
                  [&] { return std::string(test::name(family)) + " " + test::hex(want) + ", here " + test::hex(got); });
          }
        wrong.require_none(std::string(m.name.view()));
      }
}

TEST_CASE("dot: Kahan keeps what a plain sum loses") {
  const narrow::DotType f32{"f32", narrow::find_format("fp32").value()};
  const std::vector<Code> ones(4096, 0x3F800000), small(4096, 0x33000000);  // 2^-25, half an ulp below 1
  CHECK(narrow::dot(narrow::software_model(Unit::muladd, f32, f32, f32), ones, small, 0x3F800000) == 0x3F800000);
  CHECK(narrow::dot(narrow::software_model(Unit::kahan, f32, f32, f32), ones, small, 0x3F800000) ==
        0x3F800400);  // 1 + 2^-13
}

TEST_CASE("models: a name that is too long is refused") {
  const std::string long_name(60, 'x');
  const narrow::DotType t{long_name, narrow::find_format("e5m3").value()};
  CHECK_THROWS_AS((void)narrow::software_model(Unit::fma, t, t, t), narrow::Error);
}
