#include "narrow/plot/text_size.hpp"

#include <doctest/doctest.h>

using namespace narrow;
using namespace narrow::report;
using namespace narrow::plot;

TEST_CASE("plot: width grows with the text and the size and counts characters not bytes") {
  CHECK(text_width("", 12) == 0);
  CHECK(text_width("iiii", 12) < text_width("mmmm", 12));
  CHECK(text_width("abc", 24) == 2 * text_width("abc", 12));
  CHECK(text_width("abc", 12, true) > text_width("abc", 12));
  CHECK(text_width("2^-24", 12) < text_width("2-24", 12));  // raised is smaller
  CHECK(text_width("\xC3\xBC", 10) == 8);
}

TEST_CASE("plot: the box of a text follows its anchor and its turn") {
  const double width = text_width("abcd", 10);
  const Box left = text_box({{100, 50}, "abcd", 10, Anchor::left});
  CHECK(left.left == 100);
  CHECK(left.right == doctest::Approx(100 + width));
  CHECK(text_box({{100, 50}, "abcd", 10, Anchor::right}).right == doctest::Approx(100));
  const Box turned = text_box({{100, 50}, "abcd", 10, Anchor::left, Role::text, false, false, 90});
  CHECK(turned.width() == doctest::Approx(12));
  CHECK(turned.height() == doctest::Approx(width));
  CHECK(turned.bottom == doctest::Approx(50));  // counter-clockwise: upwards
}

TEST_CASE("plot: lines break at spaces and keep every word") {
  const auto lines = wrapped("one two three four five six", 10, 60);
  std::string joined;
  for (const std::string& line : lines) {
    CHECK(text_width(line, 10) <= 60);
    joined += (joined.empty() ? "" : " ") + line;
  }
  CHECK(joined == "one two three four five six");
  CHECK(lines.size() > 1);
  CHECK(wrapped("", 10, 50).empty());
  CHECK(wrapped("unbreakablewordthatislong", 10, 20).size() == 1);
}
