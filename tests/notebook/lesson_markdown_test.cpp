#include "narrow/lesson/markdown.hpp"

#include <doctest/doctest.h>

#include "narrow/base/error.hpp"

using namespace lesson;

TEST_CASE("notebook: headings have places to link to") {
  const Rendered r = markdown_html("# The title\n\n## Why 0.1 is *not* there\n");
  REQUIRE(r.headings.size() == 2);
  CHECK(r.headings[1].id == "why-0-1-is-not-there");
  CHECK(r.html.find("<h2 id=\"why-0-1-is-not-there\">Why 0.1 is <em>not</em> there</h2>") != std::string::npos);
}

TEST_CASE("notebook: lines of a paragraph belong together") {
  CHECK(markdown_html("one\ntwo\n\nthree").html == "<p>one\ntwo</p>\n<p>three</p>\n");
}

TEST_CASE("notebook: marks within a line") {
  CHECK(inline_html("**a** *b* `c<d` [e](f.md)") ==
        "<strong>a</strong> <em>b</em> <code>c&lt;d</code> <a href=\"f.md\">e</a>");
  CHECK(inline_html("2 * 3 * 4") == "2 * 3 * 4");
  CHECK(inline_html("2^-24") == "2<sup>-24</sup>");
  CHECK(inline_html("\\$5 and \\*") == "$5 and *");
}

TEST_CASE("notebook: a link to a lesson leads to its page and no link leads to a script") {
  CHECK(inline_html("[next](02_rounding.cpp)") == "<a href=\"02_rounding.html\">next</a>");
  for (const char* to : {"https://example.org/a?b=c#d", "http://example.org", "#place",
                         "folder/gr\xC3\xBC\xC3\x9F.html", "../data/x.csv"})
    CHECK(inline_html("[x](" + std::string(to) + ")").starts_with("<a href=\""));
  // Schemes, also with what browsers drop or read as something else; another host without a scheme.
  for (const char* to : {"javascript:alert",
                         "JaVaScRiPt:alert",
                         " javascript:alert",
                         "java\tscript:alert",
                         "java\nscript:alert",
                         "\x01javascript:alert",
                         "java\xE2\x80\x8Bscript:alert",
                         "javascript&colon;alert",
                         "javascript&#58;alert",
                         "data:text/html,x",
                         "vbscript:x",
                         "file:///etc/passwd",
                         "//host/x",
                         "\\\\host\\x",
                         "/\\host",
                         "/etc/passwd",
                         "https:javascript",
                         "x\"onclick=",
                         "mailto:a",
                         "\u202Ehttps://a",
                         ""}) {
    CAPTURE(to);
    const std::string html = inline_html("[x](" + std::string(to) + ")");
    CHECK(html.find("<a") == std::string::npos);
    CHECK(html.starts_with("[x]("));  // shown as text
    CHECK(inline_html("![x](" + std::string(to) + ")").find('<') == std::string::npos);
  }
}

TEST_CASE("notebook: no HTML passes through") {
  CHECK(markdown_html("<script>alert(1)</script>").html == "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n");
  CHECK(markdown_html("[a](\"><b>)").html.find("<b>") == std::string::npos);
}

TEST_CASE("notebook: items keep the lines that follow them") {
  CHECK(markdown_html("1. one\n   more\n2. two\n").html == "<ol>\n<li>one more</li>\n<li>two</li>\n</ol>\n");
  CHECK(markdown_html("- a\n- b\n").html == "<ul>\n<li>a</li>\n<li>b</li>\n</ul>\n");
}

TEST_CASE("notebook: tables have heads and cells") {
  const std::string html = markdown_html("| a | b |\n|---|---:|\n| `x|y` | 2 |\n").html;
  CHECK(html.find("<th>a</th><th class=\"r\">b</th>") != std::string::npos);
  CHECK(html.find("<td><code>x|y</code></td><td class=\"r\">2</td>") != std::string::npos);
}

TEST_CASE("notebook: formulas stand within a line or on their own") {
  CHECK(inline_html("is $2^3$ here").find("is <span class=\"math\"") == 0);
  const std::string display = markdown_html("$$\n a + b\n$$\n").html;
  CHECK(display.find("<div class=\"formula\"><span class=\"math\"") == 0);
  CHECK(display.find('$') == std::string::npos);
}

TEST_CASE("notebook: what is opened must be closed") {
  CHECK_THROWS_AS(inline_html("a $ b"), narrow::Error);
  CHECK_THROWS_AS(markdown_html("$$ a"), narrow::Error);
  CHECK_THROWS_AS(markdown_html("```\nint a;"), narrow::Error);
}

TEST_CASE("notebook: code keeps its characters") {
  CHECK(markdown_html("```\na < b\n```\n").html == "<pre class=\"code\"><code>a &lt; b\n</code></pre>\n");
}

TEST_CASE("notebook: quotes of any depth are one quote") {
  CHECK(markdown_html(std::string(100'000, '>').append(" a")).html == "<blockquote><p>a</p>\n</blockquote>\n");
}
