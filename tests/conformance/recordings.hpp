// Reads data/conformance: what real systems gave, one line a system, format, rounding and source.
#pragma once

#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "narrow/round/named_cast.hpp"
#include "narrow/round/round_to.hpp"
#include "support/inputs.hpp"
#include "support/mismatches.hpp"
#include "support/rows.hpp"
#include "support/scale.hpp"

namespace test {

struct Recording {
  std::string system, format, rounding, source;
  std::vector<std::string> fields;  // the columns after these four

  std::string about() const { return system + " " + format + " " + rounding + " " + source; }
};

struct Recordings {
  std::vector<std::string> columns;  // titles of `fields`
  std::vector<Recording> rows;
};

inline std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> list;
  std::istringstream in(line);
  for (std::string cell; std::getline(in, cell, '\t');) list.push_back(cell);
  return list;
}

inline Recordings read_recordings(const std::string& name) {
  const std::string path = NARROW_DATA "/conformance/" + name;
  std::ifstream file(path);
  INFO(path);
  REQUIRE(file.is_open());
  Recordings recordings;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> c = cells(line);
    REQUIRE(c.size() > 4);
    std::vector<std::string> rest(c.begin() + 4, c.end());
    if (recordings.columns.empty()) recordings.columns = std::move(rest);
    else recordings.rows.push_back({c[0], c[1], c[2], c[3], std::move(rest)});
  }
  REQUIRE(!recordings.rows.empty());
  return recordings;
}

inline bool is_modelled(const Recording& r) {
  const auto& systems = narrow::named_cast_systems;
  return std::find(std::begin(systems), std::end(systems), r.system) != std::end(systems);
}

// The rows of the sources asked for that narrow models; says on standard output how many others there are.
inline std::vector<Recording> modelled(const Recordings& all, const std::string& source_starts_with) {
  std::vector<Recording> list;
  std::map<std::string, int> others;
  for (const Recording& r : all.rows) {
    if (r.source.rfind(source_starts_with, 0) != 0) continue;
    if (is_modelled(r)) list.push_back(r);
    else ++others[r.system];
  }
  std::cout << "conformance: " << list.size() << " recordings of " << source_starts_with << " replayed";
  for (const auto& [system, count] : others) std::cout << "; not modelled: " << system << " (" << count << ")";
  std::cout << '\n';
  return list;
}

inline narrow::Format format_of(const Recording& r) { return narrow::find_format(r.format).value(); }

inline narrow::Cast cast_of(const Recording& r) {
  const auto found = std::find(std::begin(rounding_names), std::end(rounding_names), r.rounding);
  REQUIRE(found != std::end(rounding_names));
  return narrow::named_cast(r.system, format_of(r), roundings[found - std::begin(rounding_names)]);
}

inline std::uint64_t from_hex(const std::string& text) { return std::stoull(text, nullptr, 16); }

// The value of a float32 pattern as a double; the payload of a NaN moves up and stays signalling.
inline double widened(std::uint32_t pattern) {
  const std::uint64_t mantissa = pattern & 0x7FFFFF;
  if ((pattern & 0x7F800000) == 0x7F800000)
    return from_bits<double>(std::uint64_t{pattern >> 31} << 63 | 0x7FF0000000000000 | mantissa << 29);
  return static_cast<double>(from_bits<float>(pattern));
}

}  // namespace test
