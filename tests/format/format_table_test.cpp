// Is the table of formats sound: valid rows, unique names, names that find their rows?
#include "narrow/format/format_table.hpp"

#include <doctest/doctest.h>

#include <set>
#include <sstream>
#include <string>

#include "narrow/format/find_format.hpp"

using narrow::Format;
using narrow::format_table;
using narrow::Specials;

namespace {

struct Fields {
  std::string_view name;
  int exponent_bits, mantissa_bits, bias;
  Specials specials;
};

// As the standards give them.
constexpr Fields expected[] = {
    {"fp64", 11, 52, 1023, Specials::inf_and_nan},
    {"fp32", 8, 23, 127, Specials::inf_and_nan},
    {"tf32", 8, 10, 127, Specials::inf_and_nan},
    {"fp16", 5, 10, 15, Specials::inf_and_nan},
    {"bf16", 8, 7, 127, Specials::inf_and_nan},
    {"e4m3", 4, 3, 7, Specials::nan_only},
    {"e5m2", 5, 2, 15, Specials::inf_and_nan},
    {"e4m3fnuz", 4, 3, 8, Specials::nan_is_negative_zero},
    {"e5m2fnuz", 5, 2, 16, Specials::nan_is_negative_zero},
    {"e4m3b11fnuz", 4, 3, 11, Specials::nan_is_negative_zero},
    {"e4m3ieee", 4, 3, 7, Specials::inf_and_nan},
    {"e3m4", 3, 4, 3, Specials::inf_and_nan},
    {"e2m3", 2, 3, 1, Specials::none},
    {"e3m2", 3, 2, 3, Specials::none},
    {"e2m1", 2, 1, 1, Specials::none},
    {"e8m0", 8, 0, 127, Specials::nan_only},
    {"int8", 0, 7, -6, Specials::none},
    {"uint8", 0, 8, -7, Specials::none},
    {"int4", 0, 3, -2, Specials::none},
    {"uint4", 0, 4, -3, Specials::none},
};

}  // namespace

TEST_CASE("format: every row of the table is a valid format with a source") {
  for (const auto& row : format_table) {
    CAPTURE(row.name);
    CHECK(row.format.is_valid());
    CHECK_FALSE(row.source.empty());
  }
}

TEST_CASE("format: the table begins with the formats of the design and their fields") {
  REQUIRE(std::size(format_table) >= std::size(expected));
  for (const Fields& e : expected) {
    CAPTURE(e.name);
    const narrow::NamedFormat* row = narrow::find_row(e.name);
    REQUIRE(row != nullptr);
    CHECK(row->name == e.name);
    CHECK(row->format.exponent_bits == e.exponent_bits);
    CHECK(row->format.mantissa_bits == e.mantissa_bits);
    CHECK(row->format.bias == e.bias);
    CHECK(row->format.specials == e.specials);
    const bool unsigned_scale = row->name == "e8m0";
    CHECK(row->format.has_sign == (!unsigned_scale && !row->name.starts_with("uint")));
    CHECK(row->format.has_zero == !unsigned_scale);
    CHECK(row->format.twos_complement == row->name.starts_with("int"));
  }
}

TEST_CASE("format: no two rows share a name or an alias or an encoding") {
  std::set<std::string> words;
  for (const auto& row : format_table) {
    CHECK_MESSAGE(words.insert(std::string(row.name)).second, row.name);
    std::istringstream aliases{std::string(row.aliases)};
    for (std::string alias; aliases >> alias;) CHECK_MESSAGE(words.insert(alias).second, alias);
    for (const auto& other : format_table) CHECK((&row == &other || row.format != other.format));
  }
}

TEST_CASE("format: every name and every alias finds its row in any letter case") {
  for (const auto& row : format_table) {
    std::istringstream words{std::string(row.name) + " " + std::string(row.aliases)};
    for (std::string word; words >> word;) {
      CAPTURE(word);
      CHECK(narrow::find_row(word) == &row);
      CHECK(narrow::find_format(word) == row.format);
      for (char& c : word) c = static_cast<char>(std::toupper(c));
      CHECK(narrow::find_format(word) == row.format);
    }
  }
}
