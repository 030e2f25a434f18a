#include "narrow/report/text_table.hpp"

#include <doctest/doctest.h>

using narrow::report::Align;
using narrow::report::TextTable;

TEST_CASE("report: a table aligns by what is seen and not by escape sequences") {
  const TextTable table{
      {"a", "number"}, {Align::left, Align::right}, {{{"x", "\033[1mx\033[0m"}, "1"}, {"long", "1000000"}}};
  CHECK(table.to_text(false, 1) == " a      number\n x           1\n long  1000000\n");
  CHECK(table.to_text(true).find("\033[1mx\033[0m           1\n") != std::string::npos);
}

TEST_CASE("report: a Markdown table escapes its bars") {
  const TextTable table{{"a", "b"}, {Align::left, Align::right}, {{"x|y", "1"}}};
  CHECK(table.to_markdown() == "| a | b |\n|---|---:|\n| x\\|y | 1 |\n");
}
