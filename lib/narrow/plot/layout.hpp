// From a plot specification to a scene: where titles, legends and panels stand, and which colour is whose.
#pragma once

#include "narrow/plot/scene.hpp"
#include "narrow/report/plot.hpp"

namespace narrow::plot {

struct LayoutOptions {
  double width = 920;  // pixels; the height follows
  bool titles = true;  // false where the title stands beside the picture, as on the page
};

Scene lay_out(const Plot& plot, const LayoutOptions& options = {});

// Series without a colour get one; a name keeps its colour in all panels.
Plot with_colours(Plot plot);

}  // namespace narrow::plot
