// Where bars stand and how tall they are: grouped, stacked or overlaid, upright or lying.
#pragma once

#include "narrow/plot/frame.hpp"
#include "narrow/report/plot.hpp"

namespace narrow::plot {

bool has_bars(const Panel& panel);
void draw_bars(const Panel& panel, const Frame& frame, std::vector<Shape>& shapes);

// What an axis must show of the bars: their edges along the places, their ends along the values.
std::vector<double> bar_ends(const Panel& panel, Along along);

}  // namespace narrow::plot
