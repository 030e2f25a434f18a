// Which formats and casts the tests go through: every row of the table, and some "eXmY" at the edges of the grammar.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "narrow/format/find_format.hpp"
#include "narrow/round/cast.hpp"

namespace test {

struct Row {
  std::string name;
  narrow::Format format;
};

inline const std::vector<Row>& rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> list;
    for (const narrow::NamedFormat& row : narrow::format_table) list.push_back({std::string(row.name), row.format});
    // No mantissa, one exponent bit, Inf without a full top binade, wider than a carrier in one direction or equal to
    // it. P3109: with and without mantissa, sign and Inf.
    for (const char* name : {"e3m0f", "e1m2f", "e2m5", "e6m9", "e5m2fn", "e8m23", "e11m52", "e9m10", "binary8p1se",
                             "binary8p3se", "binary8p4ue", "binary6p1uf", "binary5p4se", "binary8p1sf", "binary11p1ue"})
      list.push_back({name, narrow::find_format(name).value()});
    return list;
  }();
  return all;
}

// Formats whose codes can all be visited: 16 bits or less, and tf32.
inline std::vector<Row> small_rows() {
  std::vector<Row> list;
  for (const Row& row : rows())
    if (row.format.width() <= 16 || row.name == "tf32") list.push_back(row);
  return list;
}

inline constexpr narrow::Rounding roundings[] = {
    narrow::Rounding::nearest_even, narrow::Rounding::nearest_away, narrow::Rounding::nearest_to_zero,
    narrow::Rounding::toward_zero,  narrow::Rounding::up,           narrow::Rounding::down,
    narrow::Rounding::to_odd,       narrow::Rounding::stochastic};
inline constexpr const char* rounding_names[] = {"nearest_even", "nearest_away", "nearest_to_zero", "toward_zero",
                                                 "up",           "down",         "to_odd",          "stochastic"};
inline constexpr const char* overflow_names[] = {"to_special", "saturate", "saturate_finite"};
inline constexpr const char* subnormals_names[] = {"keep", "flush_results", "flush_inputs"};

inline const char* name(narrow::Rounding r) { return rounding_names[static_cast<int>(r)]; }

inline std::string describe(const narrow::Cast& c) {
  return std::string(name(c.rounding)) + " " + overflow_names[static_cast<int>(c.overflow)] + " " +
         subnormals_names[static_cast<int>(c.subnormals)] + " nan:" + std::to_string(static_cast<int>(c.nan)) +
         " random_bits:" + std::to_string(c.random_bits);
}

// Every rounding x overflow x subnormals.
inline const std::vector<narrow::Cast>& all_casts() {
  static const std::vector<narrow::Cast> all = [] {
    std::vector<narrow::Cast> list;
    for (const narrow::Rounding rounding : roundings)
      for (int overflow = 0; overflow < 3; ++overflow)
        for (int subnormals = 0; subnormals < 3; ++subnormals)
          list.push_back({.rounding = rounding,
                          .overflow = static_cast<narrow::Overflow>(overflow),
                          .subnormals = static_cast<narrow::Subnormals>(subnormals)});
    return list;
  }();
  return all;
}

}  // namespace test
