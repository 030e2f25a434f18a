// From the series of a panel to shapes: bars, lines, steps, points, bands and cells.
#pragma once

#include "narrow/plot/frame.hpp"
#include "narrow/report/plot.hpp"

namespace narrow::plot {

Marker marker_of(PlotColour colour);  // a second cue beside the colour

// All series of the panel, in their order; bands and bars lie under lines and points.
void draw_series(const Panel& panel, const Frame& frame, std::vector<Shape>& shapes);

// What the axes must show of the series: the values along one axis, with the heights of stacks and the ends of bars.
std::vector<double> values_along_x(const Panel& panel);
std::vector<double> values_along_y(const Panel& panel);

// The colour of a cell, pale to dark, for part 0 to 1; and the colour of a number that stands on it.
std::uint32_t cell_colour(double part);
std::uint32_t colour_on_cell(double part);
// Where a value lies between the least and the largest of the cells: 0 to 1; not finite without a place.
double cell_part(const Panel& panel, double value);
struct CellRange {
  double low = 0, high = 0;
};
CellRange cell_range(const Panel& panel);

}  // namespace narrow::plot
