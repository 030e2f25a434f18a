// One pair or triple of codes under many casts, library against oracle; what differs is counted and described.
#pragma once

#include <vector>

#include "arith/expected.hpp"
#include "support/inputs.hpp"
#include "support/mismatches.hpp"
#include "support/rows.hpp"

namespace test {

struct Question {
  Op op;
  Code a, b, c;
};

inline std::string describe(const Question& q, const Row& row, const Cast& cast, std::uint64_t random, Code got,
                            Code want) {
  return row.name + " " + name(q.op) + "(" + hex(q.a) + " " + hex(q.b) + " " + hex(q.c) + ") " + describe(cast) +
         " random " + hex(random) + ": got " + hex(got) + " and not " + hex(want);
}

inline void check(const Question& q, const Outcome& kept, const Outcome& flushed_inputs, const Row& row,
                  const std::vector<Cast>& casts, std::uint64_t random, Mismatches& mismatches) {
  for (const Cast& cast : casts) {
    const bool flush = cast.subnormals == narrow::Subnormals::flush_inputs;
    const Code want = (flush ? flushed_inputs : kept).code(row.format, cast, random);
    const Code got = computed(q.op, q.a, q.b, q.c, row.format, cast, random);
    if (got != want) mismatches.add([&] { return describe(q, row, cast, random, got, want); });
  }
}

inline void check(const Question& q, const Operand& a, const Operand& b, const Operand& c, const Row& row,
                  const std::vector<Cast>& casts, std::uint64_t random, Mismatches& mismatches) {
  const Outcome kept = expected(q.op, a, b, c, row.format);
  const bool any_subnormal = a.subnormal || b.subnormal || c.subnormal;
  const Outcome flushed_inputs = any_subnormal ? expected(q.op, flushed(a), flushed(b), flushed(c), row.format) : kept;
  check(q, kept, flushed_inputs, row, casts, random, mismatches);
}

inline void check(const Question& q, const Row& row, const std::vector<Cast>& casts, std::uint64_t random,
                  Mismatches& mismatches) {
  const Format& f = row.format;
  check(q, operand(q.a, f), operand(q.b, f), operand(q.c, f), row, casts, random, mismatches);
}

// Every rounding mode as it comes.
inline std::vector<Cast> casts_by_rounding() {
  std::vector<Cast> list;
  for (const narrow::Rounding r : roundings) list.push_back({.rounding = r});
  return list;
}

// And: other widths of the random word, saturation, the subnormal rules and the NaN rules.
inline std::vector<Cast> casts_of_every_kind() {
  std::vector<Cast> list = casts_by_rounding();
  for (const int bits : {1, 7, 64}) list.push_back({.rounding = narrow::Rounding::stochastic, .random_bits = bits});
  list.push_back({.overflow = narrow::Overflow::saturate});
  list.push_back({.overflow = narrow::Overflow::saturate_finite});
  list.push_back({.subnormals = narrow::Subnormals::flush_results});
  list.push_back({.subnormals = narrow::Subnormals::flush_inputs});
  list.push_back({.rounding = narrow::Rounding::down, .subnormals = narrow::Subnormals::flush_inputs});
  for (const narrow::Nan rule : {narrow::Nan::keep_sign, narrow::Nan::keep_payload, narrow::Nan::quiet})
    list.push_back({.nan = rule});
  return list;
}

inline std::vector<Operand> all_operands(const Format& f) {
  std::vector<Operand> list;
  for (Code code = 0; code < Code{1} << oracle::width(f); ++code) list.push_back(operand(code, f));
  return list;
}

}  // namespace test
