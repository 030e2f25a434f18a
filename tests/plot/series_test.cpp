#include "narrow/plot/series.hpp"

#include <doctest/doctest.h>

#include "narrow/plot/bars.hpp"
#include "plots.hpp"

using namespace test;

namespace {

// x from 0 to 10 on 0 to 100 pixels, y from 0 to 10 on 100 (bottom) to 0.
Frame frame() {
  Frame f;
  f.x.low = f.y.low = 0;
  f.x.high = f.y.high = 10;
  f.area = {0, 0, 100, 100};
  return f;
}

template <class T>
std::vector<T> shapes_of(const Panel& panel, const Frame& f) {
  std::vector<Shape> shapes;
  draw_series(panel, f, shapes);
  std::vector<T> wanted;
  for (const Shape& shape : shapes)
    if (const T* one = std::get_if<T>(&shape)) wanted.push_back(*one);
  return wanted;
}

}  // namespace

TEST_CASE("plot: a line has gaps where there is no number and ends at the frame") {
  Panel panel;
  panel.series = {{.draw = Draw::line, .x = {0, 1, 2, 3, 4}, .y = {1, 1, NAN, 2, 2}}};
  CHECK(shapes_of<LineShape>(panel, frame()).size() == 2);
  panel.series = {{.draw = Draw::line, .x = {0, 10}, .y = {0, 20}}};
  const auto lines = shapes_of<LineShape>(panel, frame());
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].points.back().x == doctest::Approx(50));
  CHECK(lines[0].points.back().y == doctest::Approx(0));
  panel.series = {{.draw = Draw::line, .x = {0, 10}, .y = {20, 30}}};
  CHECK(shapes_of<LineShape>(panel, frame()).empty());
}

TEST_CASE("plot: steps hold until the next point") {
  Panel panel;
  panel.series = {{.draw = Draw::steps, .x = {0, 2, 4, 6}, .y = {1, 1, 5, 5}}};
  const auto lines = shapes_of<LineShape>(panel, frame());
  REQUIRE(lines.size() == 1);
  const std::vector<Point> expected = {{0, 90}, {40, 90}, {40, 50}, {60, 50}, {60, 50}};
  REQUIRE(lines[0].points.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(lines[0].points[i].x == doctest::Approx(expected[i].x));
    CHECK(lines[0].points[i].y == doctest::Approx(expected[i].y));
  }
}

TEST_CASE("plot: a flat stretch of steps is drawn up to the gap behind it") {
  Panel panel;
  panel.series = {{.draw = Draw::steps, .x = {0, 1, 2, 3, 4, 5}, .y = {1, 1, 1, NAN, 2, 2}}};
  const auto lines = shapes_of<LineShape>(panel, frame());
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].points.front().x == doctest::Approx(0));
  CHECK(lines[0].points.back().x == doctest::Approx(20));
  CHECK(lines[0].points.back().y == doctest::Approx(90));
  CHECK(lines[1].points.front().x == doctest::Approx(40));
  CHECK(lines[1].points.back().x == doctest::Approx(50));
}

TEST_CASE("plot: a long line is thinned and keeps its extremes") {
  Panel panel;
  Series line{.draw = Draw::line};
  for (int i = 0; i < 100000; ++i) {
    line.x.push_back(i * 1e-4);
    line.y.push_back(i == 54321 ? 9.5 : 1 + 0.1 * (i % 7));
  }
  panel.series = {line};
  const auto lines = shapes_of<LineShape>(panel, frame());
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].points.size() < 1000);
  double top = 100;
  for (const Point& p : lines[0].points) top = std::min(top, p.y);
  CHECK(top == doctest::Approx(5));
}

TEST_CASE("plot: stacked bars stand on each other and grouped ones side by side") {
  Panel panel;
  panel.bar_width = 1;
  panel.series = {{.draw = Draw::bars, .x = {2, 4}, .y = {1, 2}}, {.draw = Draw::bars, .x = {2, 4}, .y = {3, 4}}};
  panel.bars = BarLayout::stacked;
  auto rects = shapes_of<RectShape>(panel, frame());
  REQUIRE(rects.size() == 4);
  CHECK(rects[0].box.bottom == doctest::Approx(100));
  CHECK(rects[0].box.top == doctest::Approx(90));
  CHECK(rects[2].box.bottom == doctest::Approx(90));
  CHECK(rects[2].box.top == doctest::Approx(60));
  CHECK(bar_ends(panel, Along::y) == std::vector<double>{1, 2, 4, 6});
  panel.bars = BarLayout::grouped;
  rects = shapes_of<RectShape>(panel, frame());
  REQUIRE(rects.size() == 4);
  CHECK(rects[0].box.left == doctest::Approx(10.5));
  CHECK(rects[0].box.right == doctest::Approx(19.5));
  CHECK(rects[2].box.left == doctest::Approx(20.5));
  CHECK(rects[2].box.bottom == doctest::Approx(100));
}

TEST_CASE("plot: lying bars grow to the right and the first category is on top") {
  Panel panel = category_panel(true, BarLayout::stacked);
  Frame f = frame();
  f.y_down = true;
  const auto rects = shapes_of<RectShape>(panel, f);
  REQUIRE(!rects.empty());
  CHECK(rects[0].box.left == doctest::Approx(0));
  CHECK(rects[0].box.right == doctest::Approx(10));
  CHECK(rects[1].box.top > rects[0].box.bottom);
}

TEST_CASE("plot: cells are pale to dark and what has no place on the scale is said in words") {
  const Panel panel = map_panel();
  CHECK(cell_part(panel, 1e-6) == 0);
  CHECK(cell_part(panel, 1) == 1);
  CHECK(cell_part(panel, 1e-3) == doctest::Approx(0.5));
  CHECK(std::isnan(cell_part(panel, 0)));
  CHECK(std::isnan(cell_part(panel, INFINITY)));
  CHECK(cell_colour(0) > cell_colour(1));
  const auto texts = shapes_of<TextShape>(panel, frame());
  std::string all;
  for (const TextShape& text : texts) all += text.text + " ";
  CHECK(all == "1e-6 0.001 1 - 0 inf ");
}
