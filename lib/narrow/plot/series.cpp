#include "narrow/plot/series.hpp"

#include <algorithm>

#include "narrow/plot/bars.hpp"
#include "narrow/report/table.hpp"

namespace narrow::plot {
namespace {

constexpr double line_width = 2, faint_width = 1.2, faint_opacity = 0.45, band_opacity = 0.18;
constexpr std::size_t most_markers = 60;  // more of them on one line hide it

double opacity_of(const Series& s) { return s.faint ? faint_opacity : 1; }

bool is_point(const Point& p) { return std::isfinite(p.x) && std::isfinite(p.y); }

// The part of a segment that lies inside of the box (Liang and Barsky): false when there is none.
bool clip(Point& a, Point& b, const Box& box) {
  double from = 0, to = 1;
  const double dx = b.x - a.x, dy = b.y - a.y;
  const auto cut = [&](double towards, double distance) {  // keeps t with towards * t <= distance
    if (towards == 0) return distance >= 0;
    const double t = distance / towards;
    if (towards < 0) from = std::max(from, t);
    else to = std::min(to, t);
    return from <= to;
  };
  if (!cut(-dx, a.x - box.left) || !cut(dx, box.right - a.x) || !cut(-dy, a.y - box.top) || !cut(dy, box.bottom - a.y))
    return false;
  const Point start = a;
  a = {start.x + from * dx, start.y + from * dy};
  b = {start.x + to * dx, start.y + to * dy};
  return true;
}

// Cut at the frame and at gaps: several lines.
std::vector<std::vector<Point>> clipped(const std::vector<Point>& points, const Box& box) {
  std::vector<std::vector<Point>> lines;
  bool open = false;
  for (std::size_t i = 1; i < points.size(); ++i) {
    Point a = points[i - 1], b = points[i];
    if (!is_point(a) || !is_point(b) || !clip(a, b, box)) {
      open = false;
      continue;
    }
    if (!open) lines.push_back({a});
    lines.back().push_back(b);
    open = std::fabs(b.x - points[i].x) + std::fabs(b.y - points[i].y) < 1e-9;
  }
  return lines;
}

// Of the points in one column of half a pixel only the first, the least, the largest and the last are seen.
std::vector<Point> thinned(const std::vector<Point>& points, const Box& box) {
  if (points.size() < static_cast<std::size_t>(4 * box.width())) return points;
  std::vector<Point> few;
  for (std::size_t begin = 0; begin < points.size();) {
    std::size_t end = begin;
    const auto column = [](const Point& p) { return std::floor(2 * p.x); };
    while (end < points.size() && is_point(points[end]) && column(points[end]) == column(points[begin])) ++end;
    if (end - begin <= 4) {
      end = std::max(end, begin + 1);
      few.insert(few.end(), points.begin() + static_cast<std::ptrdiff_t>(begin),
                 points.begin() + static_cast<std::ptrdiff_t>(end));
    } else {
      const auto first = points.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto [low, high] = std::minmax_element(first, points.begin() + static_cast<std::ptrdiff_t>(end),
                                                   [](const Point& a, const Point& b) { return a.y < b.y; });
      few.insert(few.end(), {*first, low < high ? *low : *high, low < high ? *high : *low, points[end - 1]});
    }
    begin = end;
  }
  return few;
}

std::vector<Point> points_of(const Series& s, const Frame& f) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < s.x.size(); ++i) points.push_back(f.at(s.x[i], s.y[i]));
  return points;
}

// y holds from x to the next x. A point between two others is left out where y stays the same; before a gap it is the
// end of its stretch and is kept.
std::vector<Point> steps_of(const std::vector<Point>& points) {
  const auto is_between = [&](std::size_t i) {
    return i > 0 && i + 1 < points.size() && is_point(points[i - 1]) && is_point(points[i]) && is_point(points[i + 1]);
  };
  std::vector<Point> steps;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (is_between(i) && points[i].y == points[i - 1].y) continue;
    if (i > 0 && is_point(points[i]) && is_point(steps.back())) steps.push_back({points[i].x, steps.back().y});
    steps.push_back(points[i]);
  }
  return steps;
}

void draw_line(const Series& s, const Frame& f, std::vector<Shape>& shapes) {
  std::vector<Point> points = points_of(s, f);
  points = s.draw == Draw::steps ? steps_of(points) : thinned(points, f.area);
  for (std::vector<Point>& line : clipped(points, f.area))
    shapes.push_back(
        LineShape{std::move(line), role_of(s.colour), s.faint ? faint_width : line_width, s.dashed, opacity_of(s)});
}

void draw_points(const Series& s, const Frame& f, std::vector<Shape>& shapes) {
  if (s.draw == Draw::line_points && s.x.size() > most_markers) return;
  MarkerShape markers{{}, marker_of(s.colour), role_of(s.colour), s.faint ? 4.5 : 7.0, opacity_of(s)};
  if (s.x.size() > 300) markers.size = 3.5;
  for (const Point& p : points_of(s, f))
    if (f.holds(p)) markers.points.push_back(p);
  if (!markers.points.empty()) shapes.push_back(std::move(markers));
}

void draw_error_bars(const Series& s, const Frame& f, std::vector<Shape>& shapes) {
  constexpr double cap = 3;
  for (std::size_t i = 0; i < s.low.size(); ++i) {
    Point a = f.at(s.x[i], s.low[i]), b = f.at(s.x[i], s.high[i]);
    if (!is_point(a) || !is_point(b) || !clip(a, b, f.area)) continue;
    const Paint paint = role_of(s.colour);
    shapes.push_back(LineShape{{a, b}, paint, 1.2, false, 0.8});
    for (const Point& end : {a, b})
      shapes.push_back(LineShape{{{end.x - cap, end.y}, {end.x + cap, end.y}}, paint, 1.2, false, 0.8});
  }
}

void draw_band(const Series& s, const Frame& f, std::vector<Shape>& shapes) {
  std::vector<Point> upper, lower;
  const auto inside = [&](Point p) { return Point{p.x, std::clamp(p.y, f.area.top, f.area.bottom)}; };
  for (std::size_t i = 0; i < s.x.size(); ++i) {
    const Point low = f.at(s.x[i], s.low[i]), high = f.at(s.x[i], s.high[i]);
    if (!is_point(low) || !is_point(high) || high.x < f.area.left - 0.5 || high.x > f.area.right + 0.5) continue;
    upper.push_back(inside(high));
    lower.push_back(inside(low));
  }
  if (upper.size() < 2) return;
  upper.insert(upper.end(), lower.rbegin(), lower.rend());
  shapes.push_back(AreaShape{std::move(upper), role_of(s.colour), band_opacity});
}

void draw_cells(const Panel& panel, const Series& s, const Frame& f, std::vector<Shape>& shapes) {
  constexpr double gap = 1;
  for (std::size_t i = 0; i < s.x.size(); ++i) {
    const double part = cell_part(panel, s.value[i]);
    const Point a = f.at(s.x[i] - 0.5, s.y[i] - 0.5), b = f.at(s.x[i] + 0.5, s.y[i] + 0.5);
    if (!is_point(a) || !is_point(b)) continue;
    const Box box{std::min(a.x, b.x) + gap, std::min(a.y, b.y) + gap, std::max(a.x, b.x) - gap,
                  std::max(a.y, b.y) - gap};
    const Point middle{(box.left + box.right) / 2, (box.top + box.bottom) / 2};
    if (!std::isfinite(part)) {
      shapes.push_back(RectShape{box, Role::grid, 0.6});
      if (!std::isfinite(s.value[i]) || panel.cells.log)
        shapes.push_back(TextShape{middle,
                                   std::isnan(s.value[i]) ? "-" : significant_text(s.value[i], panel.cells.digits), 11,
                                   Anchor::middle, Role::muted});
      continue;
    }
    shapes.push_back(RectShape{box, Paint::of_rgb(cell_colour(part)), 1});
    shapes.push_back(TextShape{middle, significant_text(s.value[i], panel.cells.digits), 11, Anchor::middle,
                               Paint::of_rgb(colour_on_cell(part))});
  }
}

}  // namespace

Marker marker_of(PlotColour colour) {
  switch (colour) {
    case PlotColour::orange: return Marker::square;
    case PlotColour::green: return Marker::triangle;
    case PlotColour::vermilion: return Marker::diamond;
    case PlotColour::purple: return Marker::triangle_down;
    case PlotColour::sky:
    case PlotColour::grey: return Marker::ring;
    case PlotColour::yellow: return Marker::square;
    default: return Marker::circle;
  }
}

CellRange cell_range(const Panel& panel) {
  CellRange range{INFINITY, -INFINITY};
  for (const Series& s : panel.series) {
    if (s.draw != Draw::cells) continue;
    for (const double value : s.value)
      if (std::isfinite(value) && (value > 0 || !panel.cells.log))
        range = {std::min(range.low, value), std::max(range.high, value)};
  }
  return range;
}

double cell_part(const Panel& panel, double value) {
  const CellRange range = cell_range(panel);
  if (!std::isfinite(value) || (panel.cells.log && value <= 0) || !(range.low <= range.high)) return NAN;
  if (range.low == range.high) return 0.5;
  if (panel.cells.log) return std::log(value / range.low) / std::log(range.high / range.low);
  return (value - range.low) / (range.high - range.low);
}

// Pale blue to dark blue: one hue, lightness falls evenly, so it survives colour blindness and a grey printer.
std::uint32_t cell_colour(double part) {
  constexpr double stops[5][3] = {{232, 240, 248}, {174, 205, 232}, {100, 160, 210}, {35, 105, 170}, {10, 50, 100}};
  const double place = std::clamp(part, 0.0, 1.0) * 4;
  const int k = std::min(3, static_cast<int>(place));
  std::uint32_t rgb = 0;
  for (int c = 0; c < 3; ++c)
    rgb =
        rgb << 8 | static_cast<std::uint32_t>(std::lround(stops[k][c] + (place - k) * (stops[k + 1][c] - stops[k][c])));
  return rgb;
}
std::uint32_t colour_on_cell(double part) { return part > 0.52 ? 0xFFFFFF : 0x20252B; }

void draw_series(const Panel& panel, const Frame& frame, std::vector<Shape>& shapes) {
  for (const Series& s : panel.series)
    if (s.draw == Draw::band) draw_band(s, frame, shapes);
  draw_bars(panel, frame, shapes);
  for (const Series& s : panel.series) {
    const bool line = s.draw == Draw::line || s.draw == Draw::line_points || s.draw == Draw::steps;
    if (line) draw_line(s, frame, shapes);
    if (s.draw == Draw::cells) draw_cells(panel, s, frame, shapes);
    if (s.draw != Draw::band && s.draw != Draw::bars && s.draw != Draw::cells) draw_error_bars(s, frame, shapes);
    if (s.draw == Draw::points || s.draw == Draw::line_points) draw_points(s, frame, shapes);
  }
}

std::vector<double> values_along_x(const Panel& panel) {
  std::vector<double> values = bar_ends(panel, Along::x);
  for (const Series& s : panel.series)
    if (s.draw != Draw::bars) values.insert(values.end(), s.x.begin(), s.x.end());
  for (const Mark& m : panel.marks)
    if (m.along == Along::x) values.push_back(m.at);
  return values;
}

std::vector<double> values_along_y(const Panel& panel) {
  std::vector<double> values = bar_ends(panel, Along::y);
  for (const Series& s : panel.series) {
    if (s.draw == Draw::bars) continue;
    if (s.draw != Draw::band) values.insert(values.end(), s.y.begin(), s.y.end());
    values.insert(values.end(), s.low.begin(), s.low.end());
    values.insert(values.end(), s.high.begin(), s.high.end());
  }
  for (const Mark& m : panel.marks)
    if (m.along == Along::y) values.push_back(m.at);
  return values;
}

}  // namespace narrow::plot
