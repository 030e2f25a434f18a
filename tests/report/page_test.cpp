#include "narrow/report/page.hpp"
#include "support/contains.hpp"

#include <doctest/doctest.h>

using namespace narrow;
using namespace narrow::report;

namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

Page example(std::size_t rows) {
  Table t{"numbers", "Numbers <of> x", {text_column("name"), real_column("x", "dB")}, {}, "", {}};
  for (std::size_t i = 0; i < rows; ++i) t.add({std::string("<b>row</b>"), 2.5});
  PageSection good;
  good.name = "good";
  good.question = "Is 2^-3 < 1?";
  good.finding = "It is, by 87.5 %.";
  good.pictures = {{"Picture & title", "subtitle", "<svg viewBox=\"0 0 1 1\"></svg>"}};
  good.tables = {{t, "good_numbers.csv"}};
  good.command = "narrow run good x='<a>' -o out";
  PageSection bad;
  bad.name = "bad";
  bad.question = "Does it fail?";
  bad.failure = "no <data> here";
  Page page;
  page.title = "Title & more";
  page.introduction = "Read this.";
  page.made_by = "narrow";
  page.sections = {good, bad};
  return page;
}

}  // namespace

TEST_CASE("report: answers stand before the findings and lead to their experiment") {
  Page page = example(3);
  CHECK_FALSE(test::contains(to_html(page), "<dl"));
  page.sections[0].answers = {{"Is it <so>?", "At 2^4 by 5 %."}};
  const std::string html = to_html(page);
  const std::size_t at =
      html.find("<dt><a href=\"#good\">Is it &lt;so&gt;?</a></dt><dd>At 2<sup>4</sup> by 5&nbsp;%.</dd>");
  REQUIRE(at != std::string::npos);
  CHECK(at < html.find("<ol"));
  CHECK(test::contains(to_markdown(page.sections[0], {}), "by 5 %"));
}

TEST_CASE("report: the page opens with all findings before the first experiment") {
  const std::string html = to_html(example(3));
  const std::size_t first = html.find("<section");
  CHECK(html.find("It is, by 87.5&nbsp;%.") < first);
  CHECK(html.find("no &lt;data&gt; here") < first);
  CHECK(html.find("href=\"#good\"") < first);
  CHECK(contains(html, "id=\"good\""));
  CHECK(contains(html, "2<sup>-3</sup> &lt; 1"));
  CHECK(contains(html, "narrow run good x='&lt;a&gt;' -o out"));
  CHECK(contains(html, "<td>&lt;b&gt;row&lt;/b&gt;</td>"));
  CHECK(contains(html, "This experiment failed."));
  CHECK(!contains(html, "<b>row"));
  CHECK(count(html, "<section") == 2);
  CHECK(count(html, "</section>") == 2);
}

TEST_CASE("report: the page fetches nothing and runs nothing") {
  const std::string html = to_html(example(3));
  for (const char* word : {"http://", "https://", "<script", "@import", "url(", "src="})
    CHECK_MESSAGE(!contains(html, word), word);
  CHECK(contains(html, "prefers-color-scheme:dark"));
  CHECK(contains(html, "@media print"));
}

TEST_CASE("report: a long table starts closed and a very long one is cut but its CSV is not") {
  CHECK(!contains(to_html(example(12)), "<details>"));
  CHECK(contains(to_html(example(13)), "<details>"));
  const std::string longest = to_html(example(1000));
  CHECK(count(longest, "<tr>") == 401);
  CHECK(contains(longest, "1,000 rows"));
  CHECK(contains(longest, "the CSV has all"));
  CHECK(contains(longest, "href=\"good_numbers.csv\""));
}

TEST_CASE("report: a section as Markdown has the picture and the table and the command") {
  const std::string text = to_markdown(example(2).sections[0], {"good_p.svg"});
  CHECK(contains(text, "# Is 2^-3 &lt; 1?"));
  CHECK(contains(text, "](good_p.svg)"));
  CHECK(contains(text, "| &lt;b>row&lt;/b> | 2.5 |"));
  CHECK(contains(text, "narrow run good"));
}

// A table of judgements is read from top to bottom, however long, and each word has the class that colours it.
TEST_CASE("report: verdicts are coloured and their table is open") {
  Page page = example(1);
  Table table{"verdicts", "Judged", {text_column("statement"), text_column("verdict")}, {}, "", {}};
  for (int i = 0; i < 20; ++i) table.add({std::string("s"), std::string(i == 7 ? "not measured" : "wrong")});
  page.sections[0].tables = {{table, "verdicts.csv"}};
  const std::string html = to_html(page);
  CHECK(!contains(html, "<details>"));
  CHECK(count(html, "<span class=\"verdict wrong\">wrong</span>") == 19);
  CHECK(count(html, "<span class=\"verdict not\">not measured</span>") == 1);
}
