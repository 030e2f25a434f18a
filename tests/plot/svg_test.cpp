#include "narrow/plot/svg.hpp"

#include <doctest/doctest.h>

#include "narrow/base/process.hpp"
#include "narrow/plot/draw.hpp"
#include "narrow/plot/layout.hpp"
#include "plots.hpp"
#include "xml.hpp"
#include "support/contains.hpp"

using namespace test;

namespace {

bool is_well_formed(const std::string& xml) {
  try {
    (void)xml_text(xml);
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

}  // namespace

TEST_CASE("plot: SVG is well formed whatever the texts are") {
  CHECK(!is_well_formed("<a><b></a></b>"));
  for (const char* bad : {"<a>&</a>", "<a>]]></a>", "<a>\x01</a>", "<a>\uFFFE</a>", "<a b=\"<\"></a>"})
    CHECK(!is_well_formed(bad));
  for (const Plot& plot : all_kinds()) {
    CAPTURE(plot.name);
    CHECK(is_well_formed(to_svg_file(lay_out(plot))));
    CHECK(is_well_formed(draw_inline(plot)));
  }
  Plot odd = all_kinds()[1];
  odd.panels[0].series[0].name = "</text><script>\xFF\x01]]>\uFFFE\uFFFF\xED\xA0\x80 --> <![CDATA[ &x; \u202E";
  CHECK(is_well_formed(draw_inline(odd)));
  CHECK(!contains(draw_inline(odd), "<script>"));
  odd.title = odd.subtitle = odd.alt = odd.panels[0].series[0].name;
  const std::string file = to_svg_file(lay_out(odd));
  CHECK(is_well_formed(file));
  if (!is_on_path("python3")) return;
  const Finished ran = run_process(
      {"python3", "-c", "import sys, xml.etree.ElementTree as t; t.fromstring(sys.stdin.buffer.read())"}, file, 60);
  CHECK_MESSAGE(ran.status == 0, ran.err);
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
