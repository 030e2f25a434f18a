#include "narrow/plot/layout.hpp"

#include <doctest/doctest.h>

#include "narrow/plot/text_size.hpp"
#include "plots.hpp"

using namespace test;

namespace {

std::vector<TextShape> texts_of(const Scene& scene) {
  std::vector<TextShape> texts;
  for (const Shape& shape : scene.shapes)
    if (const auto* text = std::get_if<TextShape>(&shape)) texts.push_back(*text);
  return texts;
}

bool has_text(const Scene& scene, const std::string& wanted) {
  for (const TextShape& text : texts_of(scene))
    if (text.text == wanted) return true;
  return false;
}

}  // namespace

TEST_CASE("plot: no text covers another") {
  for (const Plot& plot : all_kinds())
    for (const double width : {920.0, 760.0}) {
      const std::vector<TextShape> texts = texts_of(lay_out(plot, {.width = width}));
      for (std::size_t i = 0; i < texts.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) {
          if (texts[i].turned != 0 && texts[j].turned != 0) continue;  // side by side on a slope: their boxes meet
          const Box a = text_box(texts[i]);
          Box b = text_box(texts[j]);
          b = {b.left + 1, b.top + 1, b.right - 1, b.bottom - 1};
          INFO(plot.name << ": '" << texts[i].text << "' and '" << texts[j].text << "'");
          CHECK(!a.meets(b));
        }
    }
}

TEST_CASE("plot: every text and every shape lies inside of the picture") {
  for (const Plot& plot : all_kinds()) {
    CAPTURE(plot.name);
    const Scene scene = lay_out(plot);
    const auto inside = [&](const Box& b) {
      return b.left >= -1 && b.top >= -1 && b.right <= scene.width + 1 && b.bottom <= scene.height + 1;
    };
    for (const TextShape& text : texts_of(scene)) {
      CAPTURE(text.text);
      CHECK(inside(text_box(text)));
    }
    for (const Shape& shape : scene.shapes) {
      if (const auto* rect = std::get_if<RectShape>(&shape)) CHECK(inside(rect->box));
      if (const auto* line = std::get_if<LineShape>(&shape))
        for (const Point& p : line->points) CHECK(inside({p.x, p.y, p.x, p.y}));
      if (const auto* area = std::get_if<AreaShape>(&shape))
        for (const Point& p : area->points) CHECK(inside({p.x, p.y, p.x, p.y}));
    }
  }
}

TEST_CASE("plot: axes have their labels with units and the legend names every series") {
  const Scene scene = lay_out(all_kinds()[1]);
  CHECK(has_text(scene, "along, steps"));
  CHECK(has_text(scene, "what is measured here, dB"));
  for (int s = 0; s < 3; ++s) CHECK(has_text(scene, "series number " + std::to_string(s)));
  CHECK(has_text(scene, "a threshold"));
  CHECK(has_text(lay_out(all_kinds()[0]), "BF16"));
}

TEST_CASE("plot: a legend that panels share stands once") {
  const auto count = [](const Scene& scene, const std::string& wanted) {
    int n = 0;
    for (const TextShape& text : texts_of(scene)) n += text.text == wanted;
    return n;
  };
  CHECK(count(lay_out(all_kinds()[1]), "series number 0") == 1);
  CHECK(count(lay_out(all_kinds()[2]), "series number 0") == 2);  // the second panel has more
}

TEST_CASE("plot: a name keeps its colour in all panels and no colour is taken twice") {
  Plot plot = all_kinds()[2];
  plot.panels[0].series[1].colour = PlotColour::blue;
  plot = with_colours(plot);
  CHECK(plot.panels[0].series[0].colour == PlotColour::orange);
  CHECK(plot.panels[1].series[0].colour == PlotColour::orange);
  CHECK(plot.panels[1].series[1].colour == PlotColour::blue);
  for (const Panel& panel : plot.panels)
    for (std::size_t i = 0; i < panel.series.size(); ++i) {
      CHECK(panel.series[i].colour != PlotColour::automatic);
      for (std::size_t j = 0; j < i; ++j) CHECK(panel.series[i].colour != panel.series[j].colour);
    }
}

TEST_CASE("plot: titles can stand beside the picture") {
  const Plot plot = all_kinds()[0];
  CHECK(has_text(lay_out(plot), plot.subtitle));
  CHECK(!has_text(lay_out(plot, {.titles = false}), plot.subtitle));
  CHECK(lay_out(plot, {.titles = false}).height < lay_out(plot).height);
}

TEST_CASE("plot: panels without data are drawn without harm") {
  Plot plot{.name = "empty", .panels = {Panel{}}};
  CHECK_NOTHROW(lay_out(plot));
  plot.panels[0].series = {{.draw = Draw::line}, {.draw = Draw::bars}, {.draw = Draw::band}, {.draw = Draw::cells}};
  CHECK_NOTHROW(lay_out(plot));
  plot.panels[0].series = {{.draw = Draw::line_points, .x = {NAN, INFINITY, 1}, .y = {1, 2, NAN}}};
  CHECK_NOTHROW(lay_out(plot));
}
