// Second opinion: the CPU's own operators on float and double, nearest even, on hard operands.
#include <cmath>

#include "arith/check.hpp"
#include "arith/operands.hpp"
#include "narrow/base/parallel.hpp"
#include "support/opinions.hpp"
#include "support/scale.hpp"

using namespace test;

namespace {

template <class T>
T native(Op op, T a, T b, T c) {
  switch (op) {
    case Op::add: return a + b;
    case Op::sub: return a - b;
    case Op::mul: return a * b;
    case Op::div: return a / b;
    case Op::sqrt: return std::sqrt(a);
    case Op::fma: break;
  }
  return std::fma(a, b, c);
}

// Any NaN counts as equal to any NaN: CPUs differ in payload and sign.
template <class T>
void check_native(const Row& row) {
  const Cast cast;
  Mismatches mismatches;
  narrow::parallel_parts(scaled(1u << 20), 4096, 0, [&](std::size_t begin, std::size_t end) {
    for (std::uint64_t i = begin; i < end; ++i) {
      const Triple t = hard_triple(i, row.format);
      for (const Op op : {Op::add, Op::sub, Op::mul, Op::div, Op::sqrt, Op::fma}) {
        const T want = native(op, from_bits<T>(t.a), from_bits<T>(t.b), from_bits<T>(t.c));
        const Code got = computed(op, t.a, t.b, t.c, row.format, cast, 0);
        const bool same = std::isnan(want) ? std::isnan(from_bits<T>(got)) : got == bits(want);
        if (!same) mismatches.add([&] { return describe({op, t.a, t.b, t.c}, row, cast, 0, got, bits(want)); });
      }
    }
  });
  mismatches.require_none(row.name);
  heard("arithmetic of this CPU on " + row.name, scaled(1u << 20));
}

}  // namespace

TEST_CASE("arith: fp32 gives the bits of this CPU's float operators") {
  check_native<float>({"fp32", narrow::ieee(8, 23)});
}
TEST_CASE("arith: fp64 gives the bits of this CPU's double operators") {
  check_native<double>({"fp64", narrow::ieee(11, 52)});
}
