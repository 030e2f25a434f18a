#include "narrow/lesson/math.hpp"

#include <doctest/doctest.h>

#include "support/contains.hpp"

using namespace lesson;

namespace {

// The formula without the element around it.
std::string inside(std::string_view tex, bool display = false) {
  const std::string html = formula_html(tex, display);
  const std::size_t start = html.find("\">") + 2;
  return html.substr(start, html.size() - start - std::string_view("</span>").size());
}

std::string formula_refusal(std::string_view tex) {
  return test::error_of([&] { formula_html(tex, false); });
}

}  // namespace

TEST_CASE("notebook: scripts are raised and lowered") {
  CHECK(inside("2^{10}") == "2<sup>10</sup>");
  CHECK(inside("x_i") == "<i>x</i><sub><i>i</i></sub>");
  CHECK(inside("x_i^2") == "<i>x</i><span class=\"scripts\"><sup>2</sup><sub><i>i</i></sub></span>");
}

TEST_CASE("notebook: a minus is a sign at the start and a difference after an operand") {
  CHECK(inside("-1") == "&#x2212;1");
  CHECK(inside("a-1") == "<i>a</i><span class=\"o\">&#x2212;</span>1");
  CHECK(inside("(-1)") == "(&#x2212;1)");
  CHECK(inside("2^{-14}") == "2<sup>&#x2212;14</sup>");
}

TEST_CASE("notebook: fractions and roots nest") {
  CHECK(inside("\\frac{1}{2}") ==
        "<span class=\"frac\"><span class=\"above\">1</span><span class=\"below\">2</span></span>");
  CHECK(inside("\\sqrt{d}") == "<span class=\"root\">&#x221A;<span class=\"under\"><i>d</i></span></span>");
  CHECK(inside("\\frac{\\frac{1}{2}}{3}").find("above\"><span class=\"frac\">") != std::string::npos);
}

TEST_CASE("notebook: a sum has limits above and below on a line of its own and scripts within a line") {
  CHECK(inside("\\sum_{i=1}^n", true).find("<span class=\"limits\"><span class=\"above\"><i>n</i>") == 0);
  CHECK(inside("\\sum_i", false).find("<sub><i>i</i></sub>") != std::string::npos);
}

TEST_CASE("notebook: brackets grow around a fraction in a formula of its own") {
  CHECK(inside("\\left( \\frac{1}{2} \\right)", true).find("<span class=\"fence\">(</span>") == 0);
  CHECK(inside("\\left( 1 \\right)", true) == "(1)");
}

TEST_CASE("notebook: the reader who hears the page gets the TeX") {
  CHECK(formula_html("a < b", false).find("aria-label=\"a &lt; b\"") != std::string::npos);
}

TEST_CASE("notebook: text in a formula is text") {
  CHECK(inside("\\text{a < b}") == "a &lt; b");
  CHECK(inside("65,536") == "65,536");
}

TEST_CASE("notebook: a formula that cannot be read says what is wrong") {
  CHECK(formula_refusal("\\foo").find("unknown command \\foo") != std::string::npos);
  CHECK(formula_refusal("{a").find("a { is not closed") != std::string::npos);
  CHECK(formula_refusal("a}").find("a } too many") != std::string::npos);
  CHECK(formula_refusal("a^").find("nothing after") != std::string::npos);
  CHECK(formula_refusal("\\frac{1}").find("nothing after \\frac") != std::string::npos);
  CHECK(formula_refusal("\\left( 1").find("\\left without \\right") != std::string::npos);
  CHECK(formula_refusal("1 \\right)").find("\\right without \\left") != std::string::npos);
  CHECK(formula_refusal("a^1^2").find("two ^") != std::string::npos);
  CHECK(formula_refusal("a \"b\"").find("unknown sign") != std::string::npos);
}

TEST_CASE("notebook: a formula of any depth ends in an answer or a refusal") {
  CHECK(formula_refusal(std::string(100'000, '{')).find("too deep") != std::string::npos);
  std::string nested;
  for (int i = 0; i < 10'000; ++i) nested += "\\sqrt";
  CHECK(formula_refusal(nested).find("too deep") != std::string::npos);
  std::string fractions;
  for (int i = 0; i < 10'000; ++i) fractions += "\\frac1";
  CHECK(formula_refusal(fractions).find("too deep") != std::string::npos);
}
