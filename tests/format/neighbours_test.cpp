// Are codes in the order of their values: neighbours, ordinals and distances?
#include "narrow/format/neighbours.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/inputs.hpp"
#include "support/mismatches.hpp"
#include "support/rows.hpp"

using narrow::Code;
using narrow::Format;

namespace {

// The values of a format in ascending order, both zeros as one entry, Inf at the ends; each with its codes (-0 first).
std::vector<std::vector<Code>> sorted_codes(const Format& f) {
  struct Entry {
    double value;  // exact: double holds every value of these formats
    Code code;
  };
  std::vector<Entry> entries;
  for (Code c = 0; c <= f.code_mask(); ++c) {
    const oracle::Value v = oracle::value_of(c, f);
    if (v.kind == oracle::Kind::nan) continue;
    const double magnitude = v.kind == oracle::Kind::inf ? HUGE_VAL : test::to_double(v.magnitude);
    entries.push_back({v.negative ? -magnitude : magnitude, c});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.value != b.value ? a.value < b.value : a.code > b.code;  // the larger code of two zeros is -0
  });
  std::vector<std::vector<Code>> list;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i > 0 && entries[i - 1].value == entries[i].value) list.back().push_back(entries[i].code);
    else list.push_back({entries[i].code});
  }
  return list;
}

}  // namespace

TEST_CASE("format: neighbours and distances follow the order of the values") {
  for (const test::Row& row : test::small_rows()) {
    const Format& f = row.format;
    const auto sorted = sorted_codes(f);
    test::Mismatches wrong;
    const auto expect = [&](bool right, const char* what, Code c) {
      if (!right) wrong.add([&] { return row.name + " " + what + " of " + test::hex(c); });
    };
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      const bool bottom = i == 0, top = i + 1 == sorted.size();
      for (const Code c : sorted[i]) {
        // A zero reached from below is -0, from above +0, where both exist.
        expect(narrow::next_up(c, f) == (top ? c : sorted[i + 1].front()), "next_up", c);
        expect(narrow::next_down(c, f) == (bottom ? c : sorted[i - 1].back()), "next_down", c);
        expect(narrow::ulp_distance(c, sorted[i].front(), f) == 0, "distance to the same value", c);
        expect(narrow::ulp_distance(c, sorted[0][0], f) == i, "distance from the bottom", c);
        expect(narrow::ulp_distance(sorted[0][0], c, f) == i, "distance to the bottom", c);
        expect(narrow::ordinal(c, f) - narrow::ordinal(sorted[0][0], f) == static_cast<std::int64_t>(i), "ordinal", c);
        expect(narrow::from_ordinal(narrow::ordinal(c, f), f) == sorted[i].back(), "from_ordinal", c);
      }
    }
    wrong.require_none(row.name);
    // Where there is a zero, it is the origin.
    if (f.has_zero) CHECK(narrow::ordinal(0, f) == 0);
  }
}

TEST_CASE("format: a NaN has no neighbours and is infinitely far from numbers") {
  for (const test::Row& row : test::small_rows()) {
    const Format& f = row.format;
    if (!f.has_nan()) continue;
    CAPTURE(row.name);
    for (Code c = 0; c <= f.code_mask(); ++c) {
      if (oracle::value_of(c, f).kind != oracle::Kind::nan) continue;
      const bool right = narrow::next_up(c, f) == c && narrow::next_down(c, f) == c &&
                         narrow::ulp_distance(c, 0, f) == ~0ull && narrow::ulp_distance(0, c, f) == ~0ull &&
                         narrow::ulp_distance(c, f.nan_code(), f) == 0;
      if (!right) CHECK_MESSAGE(right, test::hex(c));
    }
  }
}

TEST_CASE("format: distances across the whole of fp64 do not overflow") {
  const Format f = narrow::find_format("fp64").value();
  CHECK(narrow::ulp_distance(f.infinity_code(true), f.infinity_code(), f) == 2 * f.infinity_code());
  CHECK(narrow::ulp_distance(f.max_code(true), f.max_code(), f) == 2 * f.max_code());
  CHECK(narrow::next_up(f.max_code(), f) == f.infinity_code());
  CHECK(narrow::next_down(0, f) == (f.sign_mask() | 1));
  CHECK(narrow::next_up(f.sign_mask() | 1, f) == f.sign_mask());
}
