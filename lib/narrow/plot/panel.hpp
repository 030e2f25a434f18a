// One panel: how much room its texts need, and then all of its shapes.
#pragma once

#include "narrow/plot/legend.hpp"

namespace narrow::plot {

// What surrounds the drawing area, in pixels. Panels in a grid share the largest, so that their areas align.
struct Margins {
  double left = 0, right = 0, top = 0, bottom = 0;
};

enum class CategoryTexts : std::uint8_t { straight, two_lines, turned };

struct PanelPlan {
  ReadyAxis x, y;
  Margins margins;
  std::vector<LegendItem> legend;           // above the area
  std::vector<std::string> title, y_label;  // in lines
  CategoryTexts x_texts = CategoryTexts::straight;
};

// width: of the whole panel, height: of its drawing area. own_legend: not named above the whole picture.
PanelPlan plan_panel(const Panel& panel, double width, double height, bool own_legend);

// area: without the margins.
void draw_panel(const Panel& panel, const PanelPlan& plan, const Box& area, std::vector<Shape>& shapes);

// "label, unit".
std::string axis_text(const Axis& axis);

}  // namespace narrow::plot
