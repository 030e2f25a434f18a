// Says in the output which second opinions were heard. One that is not here is reported as not run, never as passed.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

#include "support/against_oracle.hpp"

namespace test {

inline void heard(const std::string& who, std::uint64_t inputs) {
  std::printf("second opinion: %s: ran, %llu inputs\n", who.c_str(), static_cast<unsigned long long>(inputs));
}
inline void not_heard(const std::string& who, const std::string& why) {
  std::printf("second opinion: %s: NOT RUN (%s)\n", who.c_str(), why.c_str());
}

// The inputs of an opinion: every critical one of the format, then spread ones.
template <class T, class Body>
std::uint64_t for_each_input(const narrow::Format& f, std::uint64_t spread_count, const Body& body) {
  std::uint64_t count = 0;
  for (const narrow::Code m : magnitudes(f, spread_count / 16))
    for (const T x : around<T>(m, f)) body(x), ++count;
  for (const T x : limits<T>()) body(x), ++count;
  for (std::uint64_t i = 0; i < spread_count; ++i) body(spread<T>(i, f)), ++count;
  return count;
}

// theirs(x) gives a code; NaN inputs go through it too.
template <class T, class Theirs>
std::uint64_t compare_opinion(const std::string& format, const narrow::Cast& cast, std::uint64_t spread_count,
                              const Theirs& theirs) {
  const Row row{format, narrow::find_format(format).value()};
  Mismatches wrong;
  const std::uint64_t count = for_each_input<T>(row.format, spread_count, [&](T x) {
    const auto want = static_cast<narrow::Code>(theirs(x));
    const narrow::Code got = narrow::encode(x, row.format, cast);
    if (want != got)
      wrong.add([&] {
        return hex_float(static_cast<double>(x)) + " (bits " + hex(bits(x)) + "): theirs " + hex(want) + ", encode " +
               hex(got);
      });
  });
  wrong.require_none(row.name + " " + describe(cast));
  return count;
}

}  // namespace test
