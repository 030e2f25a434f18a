// What the colours and marks of a panel mean: collected once, laid out in rows or as a list.
#pragma once

#include "narrow/plot/frame.hpp"
#include "narrow/report/plot.hpp"

namespace narrow::plot {

struct LegendItem {
  std::string name;
  Draw draw;
  PlotColour colour;
  bool dashed, faint;
  friend bool operator==(const LegendItem&, const LegendItem&) = default;
};

std::vector<LegendItem> legend_items(const Panel& panel);

inline constexpr double legend_row = 21;  // pixels

// How many rows the items need side by side.
std::size_t legend_rows(const std::vector<LegendItem>& items, double width);
// Side by side from the left, in rows.
void draw_legend_rows(const std::vector<LegendItem>& items, const Box& room, std::vector<Shape>& shapes);
// One below the other, in a corner of the area, on a piece of paper. Returns the place that it took.
Box draw_legend_list(const std::vector<LegendItem>& items, const Box& area, Legend corner, std::vector<Shape>& shapes);

}  // namespace narrow::plot
