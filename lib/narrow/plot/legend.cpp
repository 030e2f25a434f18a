#include "narrow/plot/legend.hpp"

#include <algorithm>

#include "narrow/plot/series.hpp"
#include "narrow/plot/text_size.hpp"

namespace narrow::plot {
namespace {

constexpr double text_size = 12.5, sample = 22, space = 7, between = 20;

bool is_filled(Draw draw) { return draw == Draw::bars || draw == Draw::band; }
double sample_width(const LegendItem& item) { return is_filled(item.draw) || item.draw == Draw::points ? 12 : sample; }
double item_width(const LegendItem& item) { return sample_width(item) + space + text_width(item.name, text_size); }

void draw_item(const LegendItem& item, double x, double y, std::vector<Shape>& shapes) {
  const Paint paint = role_of(item.colour);
  const double width = sample_width(item), opacity = item.faint ? 0.45 : 1;
  if (is_filled(item.draw)) {
    shapes.push_back(RectShape{{x, y - 6, x + width, y + 6}, paint, item.draw == Draw::band ? 0.3 : opacity});
  } else {
    if (item.draw != Draw::points)
      shapes.push_back(LineShape{{{x, y}, {x + width, y}}, paint, item.faint ? 1.4 : 2.4, item.dashed, opacity});
    if (item.draw == Draw::points || item.draw == Draw::line_points)
      shapes.push_back(MarkerShape{{{x + width / 2, y}}, marker_of(item.colour), paint, 7, opacity});
  }
  shapes.push_back(TextShape{{x + width + space, y}, item.name, text_size, Anchor::left, Role::text});
}

// Calls place(item, x, row) for every item.
template <class Place>
std::size_t lay_out(const std::vector<LegendItem>& items, double width, const Place& place) {
  double x = 0;
  std::size_t row = 0;
  for (const LegendItem& item : items) {
    if (x > 0 && x + item_width(item) > width) x = 0, ++row;
    place(item, x, row);
    x += item_width(item) + between;
  }
  return items.empty() ? 0 : row + 1;
}

}  // namespace

std::vector<LegendItem> legend_items(const Panel& panel) {
  std::vector<LegendItem> items;
  for (const Series& s : panel.series) {
    if (s.name.empty() || s.draw == Draw::cells) continue;
    const LegendItem item{s.name, s.draw, s.colour, s.dashed, s.faint};
    if (std::find(items.begin(), items.end(), item) == items.end()) items.push_back(item);
  }
  return items;
}

std::size_t legend_rows(const std::vector<LegendItem>& items, double width) {
  return lay_out(items, width, [](const LegendItem&, double, std::size_t) {});
}

void draw_legend_rows(const std::vector<LegendItem>& items, const Box& room, std::vector<Shape>& shapes) {
  lay_out(items, room.width(), [&](const LegendItem& item, double x, std::size_t row) {
    draw_item(item, room.left + x, room.top + (static_cast<double>(row) + 0.5) * legend_row, shapes);
  });
}

Box draw_legend_list(const std::vector<LegendItem>& items, const Box& area, Legend corner, std::vector<Shape>& shapes) {
  if (items.empty()) return {};
  double width = 0;
  for (const LegendItem& item : items) width = std::max(width, item_width(item));
  const double height = legend_row * static_cast<double>(items.size()), rim = 6, gap = 8;
  const bool right = corner == Legend::top_right || corner == Legend::bottom_right;
  const bool bottom = corner == Legend::bottom_left || corner == Legend::bottom_right;
  const double left = right ? area.right - gap - width - 2 * rim : area.left + gap;
  const double top = bottom ? area.bottom - gap - height - 2 * rim : area.top + gap;
  const Box box{left, top, left + width + 2 * rim, top + height + 2 * rim};
  shapes.push_back(RectShape{box, Role::paper, 0.85});
  for (std::size_t i = 0; i < items.size(); ++i)
    draw_item(items[i], left + rim, top + rim + (static_cast<double>(i) + 0.5) * legend_row, shapes);
  return box;
}

}  // namespace narrow::plot
