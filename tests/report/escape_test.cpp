#include "narrow/report/escape.hpp"

#include <doctest/doctest.h>

#include "narrow/report/text_runs.hpp"

using namespace narrow;
using namespace narrow::report;

TEST_CASE("report: no text can leave its place in HTML") {
  CHECK(escaped_html("<script>a&\"b\"</script>") == "&lt;script&gt;a&amp;&quot;b&quot;&lt;/script&gt;");
  CHECK(escaped_html("a\x01\x7f") == "a\\x01\\u007F");
  CHECK(escaped_html("a\u202Eb\u2066c\u009B\uFFFE]]>") == "a\\u202Eb\\u2066c\\u009B\\uFFFE]]&gt;");
  CHECK(escaped_html("gr\xC3\xBC\xC3\x9F") == "gr\xC3\xBC\xC3\x9F");
  for (const char* broken : {"\xFF", "\xC3", "\xC0\xAF", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xE2\x82"}) {
    CAPTURE(broken);
    for (const char c : escaped_html(broken)) CHECK((c >= ' ' && c < 127));
  }
  CHECK(escaped_markdown("[x](javascript:1) a\\|b \u202E") == "[x]\\(javascript:1) a\\\\\\|b \\\\u202E");
  CHECK(csv_field("plain") == "plain");
  CHECK(csv_field("a,b") == "\"a,b\"");
}

TEST_CASE("report: no text of a cell is a formula and numbers stay numbers") {
  for (const char* formula : {"=1+1", "+1+1", "-1+1", "@SUM(A1)", "\uFF1D1", "-", "+", "=", "-x", "+-x", "--1"}) {
    CAPTURE(formula);
    CHECK(csv_field(formula) == "'" + std::string(formula));
  }
  for (const char* quoted : {"=A1,B1", "\t=1", "\r=1", "\n=1", "=\"a\""}) CHECK(csv_field(quoted).starts_with("\"'"));
  for (const char* number : {"-1.5", "+1.5", "-inf", "+inf", "nan", "-nan", "-1e-400", "+2e9", "0", "", "a=b", "a-b"})
    CHECK(csv_field(number) == number);
  CHECK(csv_comment("t,=1;@2,\"=3\"\n=4,x") == "# t, =1; @2, \"=3\" =4,x\n");
}

TEST_CASE("report: exponents are raised and bases lowered and nothing else is touched") {
  CHECK(html_with_powers("2^-25 and 10^4") == "2<sup>-25</sup> and 10<sup>4</sup>");
  CHECK(html_with_powers("log2 x, log10 y") == "log<sub>2</sub> x, log<sub>10</sub> y");
  CHECK(html_with_powers("n^2 (a)^k") == "n<sup>2</sup> (a)<sup>k</sup>");
  CHECK(html_with_powers("2^-20.6, then 2^10.") == "2<sup>-20.6</sup>, then 2<sup>10</sup>.");
  CHECK(html_with_powers("QK^T") == "QK<sup>T</sup>");
  CHECK(html_with_powers("a^ b, ^3, x^abc, catalog2, log25") == "a^ b, ^3, x^abc, catalog2, log25");
  CHECK(html_with_powers("2^<b>") == "2^&lt;b&gt;");
  CHECK(html_with_powers("") == "");
  std::string joined;
  for (const TextRun& run : text_runs("2^-25 < log2(x^2)")) joined += run.text;
  CHECK(joined == "2-25 < log2(x2)");
}

TEST_CASE("report: a number stays with its unit") {
  CHECK(html_with_powers("39.4 % and 31 dB") == "39.4&nbsp;% and 31&nbsp;dB");
  CHECK(html_with_powers("a % b") == "a % b");
}
