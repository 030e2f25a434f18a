// The edge inputs (ends of ranges, ties, specials) give the codes that the real systems gave.
#include "conformance/recordings.hpp"

using namespace test;

namespace {

template <class T>
void check_edges(const std::string& source, T (*input)(std::uint32_t)) {
  const Recordings all = read_recordings("edges.tsv");
  const std::vector<Recording> list = modelled(all, source);
  CHECK(list.size() >= 30);
  for (const Recording& r : list) {
    const narrow::Format f = format_of(r);
    const narrow::Cast cast = cast_of(r);
    REQUIRE(r.fields.size() == all.columns.size());
    Mismatches mismatches;
    for (std::size_t i = 0; i < r.fields.size(); ++i) {
      const auto pattern = static_cast<std::uint32_t>(from_hex(all.columns[i]));
      const narrow::Code got = narrow::encode(input(pattern), f, cast);
      if (got != from_hex(r.fields[i]))
        mismatches.add([&] { return "input " + all.columns[i] + ": got " + hex(got) + " and not 0x" + r.fields[i]; });
    }
    mismatches.require_none(r.about());
  }
}

float as_float(std::uint32_t pattern) { return from_bits<float>(pattern); }

}  // namespace

TEST_CASE("conformance: edge inputs as float give the recorded codes") { check_edges<float>("f32", as_float); }
TEST_CASE("conformance: edge inputs as double give the recorded codes") { check_edges<double>("f64", widened); }
