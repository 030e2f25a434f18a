#include "narrow/report/table_writers.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

using namespace narrow;
using namespace narrow::report;

namespace {

Table example() {
  Table t{"t", "A title", {text_column("name"), fixed_column("share", "%", 1), power_column("scale")},
          {},  "a note",  {}};
  t.parameters = {{"samples", "100"}, {"file", "a\nb"}};
  t.add({std::string("one, \"two\""), 12.34, 65536.0});
  t.add({std::string("a|b<c"), Cell{}, INFINITY});
  return t;
}

}  // namespace

TEST_CASE("report: CSV says how it was made and quotes what needs it") {
  const std::string csv = to_csv(example(), "narrow run x");
  CHECK(csv.substr(0, 9) == "# narrow ");
  const std::size_t end = csv.find("\n");
  CHECK(csv.substr(0, end).ends_with(": narrow run x"));
  CHECK(csv.substr(end + 1) ==
        "# A title\n"
        "# parameters: samples=100 file=a b\n"  // a line end cannot leave the comment
        "name,share [%],scale\n"
        "\"one, \"\"two\"\"\",12.3,65536\n"
        "a|b<c,,inf\n");
}

TEST_CASE("report: Markdown aligns numbers to the right and keeps its bars") {
  CHECK(to_markdown(example()) ==
        "| name | share [%] | scale |\n"
        "|---|---:|---:|\n"
        "| one, \"two\" | 12.3 | 2^16 |\n"
        "| a\\|b&lt;c | - | inf |\n");
}

TEST_CASE("report: text is aligned and has no spaces at the ends of lines") {
  CHECK(to_text(example()) ==
        "name        share [%]  scale\n"
        "one, \"two\"       12.3   2^16\n"
        "a|b<c               -    inf\n");
}

TEST_CASE("report: JSON reads back with numbers as numbers") {
  Table t = example();
  t.rows[0][0] = std::string("tab\t and \x01");
  const auto json = nlohmann::json::parse(to_json(t));
  CHECK(json["name"] == "t");
  CHECK(json["columns"][1]["unit"] == "%");
  CHECK(json["rows"][0][0] == "tab\t and \x01");
  CHECK(json["rows"][0][1] == 12.3);
  CHECK(json["rows"][0][2] == 65536);
  CHECK(json["rows"][1][1].is_null());
  CHECK(json["rows"][1][2] == "inf");
}
