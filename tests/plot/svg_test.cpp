#include "narrow/plot/svg.hpp"

#include <doctest/doctest.h>

#include "narrow/plot/draw.hpp"
#include "narrow/plot/layout.hpp"
#include "plots.hpp"

using namespace test;

namespace {

// Whether every element that is opened is closed in order, and every & starts an entity. Enough of XML for what is
// written here: attributes in double quotes, no comments.
bool is_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t i = 0; i < xml.size(); ++i) {
    if (xml[i] == '&') {
      const std::size_t end = xml.find(';', i);
      if (end == std::string::npos || end - i > 6) return false;
    }
    if (xml[i] == '>') return false;
    if (xml[i] != '<') continue;
    std::size_t end = i + 1;
    bool quoted = false;
    while (end < xml.size() && (quoted || xml[end] != '>')) {
      if (xml[end] == '"') quoted = !quoted;
      if (xml[end] == '<') return false;
      ++end;
    }
    if (end == xml.size()) return false;
    const std::string tag = xml.substr(i + 1, end - i - 1);
    if (tag[0] == '?') {
    } else if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
    i = end;
  }
  return open.empty();
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("plot: SVG is well formed whatever the texts are") {
  CHECK(!is_well_formed("<a><b></a></b>"));
  CHECK(!is_well_formed("<a>&</a>"));
  for (const Plot& plot : all_kinds()) {
    CAPTURE(plot.name);
    CHECK(is_well_formed(to_svg_file(lay_out(plot))));
    CHECK(is_well_formed(draw_inline(plot)));
  }
  Plot odd = all_kinds()[1];
  odd.panels[0].series[0].name = "</text><script>\xFF\x01";
  CHECK(is_well_formed(draw_inline(odd)));
  CHECK(!contains(draw_inline(odd), "<script>"));
}

TEST_CASE("plot: a picture on a page takes its colours from the page and a file has its own") {
  const Plot plot = all_kinds()[0];
  const std::string inside = draw_inline(plot), alone = to_svg_file(lay_out(plot));
  CHECK(contains(inside, "var(--vermilion)"));
  CHECK(!contains(inside, "#D55E00"));
  CHECK(contains(alone, "#D55E00"));
  CHECK(!contains(alone, "var("));
  CHECK(contains(alone, "<title>Title with"));  // for readers that cannot see it
  CHECK(contains(inside, "viewBox"));
}

TEST_CASE("plot: no number of a picture is anything but a number") {
  for (const Plot& plot : all_kinds()) {
    const std::string svg = draw_inline(plot);
    CHECK(!contains(svg, "=\"nan"));
    CHECK(!contains(svg, "=\"inf"));
    CHECK(!contains(svg, "Lnan"));
  }
}
