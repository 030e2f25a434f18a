// A picture as a list of shapes in pixels, from the top left: what is left to do for whoever draws it is no decision.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "narrow/report/palette.hpp"

namespace narrow::plot {

using namespace report;  // what is drawn is said there

// A role of the palette, or one fixed colour on any paper (the cells of a map).
struct Paint {
  Role role = Role::ink;
  bool fixed = false;
  std::uint32_t rgb = 0;

  Paint(Role r = Role::ink) : role(r) {}
  static Paint of_rgb(std::uint32_t rgb) {
    Paint p;
    p.fixed = true;
    p.rgb = rgb;
    return p;
  }
  friend bool operator==(const Paint&, const Paint&) = default;
};

struct Point {
  double x = 0, y = 0;
};

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;

  double width() const { return right - left; }
  double height() const { return bottom - top; }
  bool meets(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

struct RectShape {
  Box box;
  Paint fill;
  double opacity = 1;
};

struct LineShape {
  std::vector<Point> points;
  Paint stroke;
  double width = 1;
  bool dashed = false;
  double opacity = 1;
};

struct AreaShape {  // a closed polygon
  std::vector<Point> points;
  Paint fill;
  double opacity = 1;
};

enum class Marker : std::uint8_t { circle, square, triangle, diamond, triangle_down, ring };

struct MarkerShape {
  std::vector<Point> points;
  Marker marker = Marker::circle;
  Paint fill;
  double size = 6;  // across
  double opacity = 1;
};

enum class Anchor : std::uint8_t { left, middle, right };

// y is the middle of the line. halo: a rim of paper keeps it readable over lines.
struct TextShape {
  Point at;
  std::string text;
  double size = 12;
  Anchor anchor = Anchor::left;
  Paint fill = Role::text;
  bool bold = false;
  bool halo = false;
  double turned = 0;  // degrees, counter-clockwise around `at`
};

using Shape = std::variant<RectShape, LineShape, AreaShape, MarkerShape, TextShape>;

struct Scene {
  double width = 0, height = 0;
  std::string title, description;  // for readers that cannot see it
  std::vector<Shape> shapes;       // later ones lie on top; texts above all
};

}  // namespace narrow::plot
