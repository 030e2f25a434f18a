// Holds encode() against the oracle for many inputs and casts, on all cores.
#pragma once

#include <span>
#include <string>

#include "narrow/base/parallel.hpp"
#include "narrow/round/round_to.hpp"
#include "support/inputs.hpp"
#include "support/mismatches.hpp"
#include "support/rows.hpp"

namespace test {

template <class T>
std::string describe(T x, const Row& row, const narrow::Cast& cast, std::uint64_t random, narrow::Code want,
                     narrow::Code got) {
  return row.name + " [" + describe(cast) + "] " + hex_float(static_cast<double>(x)) + " (bits " + hex(bits(x)) +
         ") random " + hex(random) + ": oracle " + hex(want) + ", encode " + hex(got);
}

// One input under all the casts: the exact division is done once.
template <class T>
void compare_casts(T x, const Row& row, std::span<const narrow::Cast> casts, std::uint64_t random, Mismatches& wrong) {
  const oracle::Word word = oracle::take_apart(x);
  bool fraction = false;
  for (const narrow::Cast& cast : casts) fraction |= cast.rounding == narrow::Rounding::stochastic;
  const oracle::Split s =
      word.kind == oracle::Kind::finite ? oracle::split(word, row.format, fraction) : oracle::Split{};
  for (const narrow::Cast& cast : casts) {
    const narrow::Code want = oracle::round_word(word, s, row.format, cast, random);
    const narrow::Code got = narrow::encode(x, row.format, cast, random);
    if (want != got) wrong.add([&] { return describe(x, row, cast, random, want, got); });
  }
}

// input(i, emit) calls emit(x) for each of its inputs.
template <class Input>
void compare_all(const Row& row, std::uint64_t count, std::span<const narrow::Cast> casts, const Input& input) {
  Mismatches wrong;
  narrow::parallel_parts(count, 1024, 0, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      std::uint64_t random = mix(i);
      input(i, [&](auto x) { compare_casts(x, row, casts, random = mix(random), wrong); });
    }
  });
  wrong.require_none(row.name);
}

}  // namespace test
