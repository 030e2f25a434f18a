// Plots that use everything a specification can say.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "narrow/report/plot.hpp"

namespace test {

using namespace narrow;
using namespace narrow::report;
using namespace narrow::plot;

inline Panel line_panel(int series, AxisScale x, AxisScale y) {
  Panel panel;
  panel.title = "a title of a panel that is rather long";
  panel.x = {.label = "along", .unit = "steps", .scale = x};
  panel.y = {.label = "what is measured here", .unit = "dB", .scale = y};
  for (int s = 0; s < series; ++s) {
    Series line{.name = "series number " + std::to_string(s), .draw = s % 2 == 0 ? Draw::line_points : Draw::steps};
    for (int i = 0; i < 12; ++i) {
      line.x.push_back(std::pow(2.0, i));
      line.y.push_back(std::exp2(0.4 * i * (s + 1)) * 1e-3);
    }
    panel.series.push_back(line);
  }
  panel.marks = {{Along::x, 64, "a threshold"}, {Along::x, 80, "another one close by"}, {Along::y, 1, "one"}};
  panel.notes = {{512, 0.5, "a note"}, {1500, 0.02, "a note at the right end that is longer than what is left"}};
  return panel;
}

inline Panel histogram_panel() {
  Panel panel;
  panel.x = {.label = "magnitude", .scale = AxisScale::exponent_of_two, .low = -40, .high = 18};
  panel.y = {.label = "share", .unit = "%"};
  panel.bars = BarLayout::overlaid;
  for (const PlotColour colour : {PlotColour::vermilion, PlotColour::blue}) {
    Series bars{.name = colour == PlotColour::blue ? "kept" : "lost below 2^-25", .draw = Draw::bars, .colour = colour};
    for (int k = -30; k < 0; ++k)
      if ((k < -25) == (colour == PlotColour::vermilion)) bars.x.push_back(k + 0.5), bars.y.push_back(k + 31);
    panel.series.push_back(bars);
  }
  panel.marks = {{Along::x, -25, "below 2^-25: zero"}};
  panel.rulers = {{"FP16", {{-24, -14, PlotColour::orange}, {-14, 16, PlotColour::blue}}},
                  {"BF16", {{-133, -126, PlotColour::orange}, {-126, 128, PlotColour::blue}}}};
  return panel;
}

inline Panel category_panel(bool lying, BarLayout layout) {
  Panel panel;
  const std::vector<std::string> names = {"one", "a longer name", "a very long name of a category", "four"};
  (lying ? panel.y : panel.x).categories = names;
  (lying ? panel.x : panel.y).label = "bytes";
  panel.horizontal = lying;
  panel.bars = layout;
  panel.value_digits = 3;
  for (const char* name : {"first", "second", "third"})
    panel.series.push_back({.name = name, .draw = Draw::bars, .x = {0, 1, 2, 3}, .y = {1, 20, 3, 14.5}});
  return panel;
}

inline Panel map_panel() {
  Panel panel;
  panel.x.categories = {"fp32", "bf16", "e4m3"};
  panel.y.categories = {"exp", "softmax"};
  panel.cells = {.label = "error", .unit = "%", .log = true, .digits = 2};
  panel.series = {{.draw = Draw::cells,
                   .x = {0, 1, 2, 0, 1, 2},
                   .y = {0, 0, 0, 1, 1, 1},
                   .value = {1e-6, 1e-3, 1, NAN, 0, INFINITY}}};
  return panel;
}

inline std::vector<Plot> all_kinds() {
  std::vector<Plot> plots;
  const auto add = [&](const char* name, std::vector<Panel> panels, int columns) {
    Plot plot{.name = name,
              .title = "Title with 2^-24 & <signs> \"quoted\" 'too' `x` $y {z}",
              .subtitle = "log2 of it_all @ ~1 \\ ^",
              .panels = std::move(panels),
              .columns = columns};
    plots.push_back(std::move(plot));
  };
  add("histogram", {histogram_panel()}, 1);
  add("lines", {line_panel(3, AxisScale::log2, AxisScale::log10), line_panel(3, AxisScale::log2, AxisScale::log10)}, 2);
  add("three",
      {line_panel(2, AxisScale::linear, AxisScale::linear), line_panel(5, AxisScale::log10, AxisScale::log2),
       map_panel()},
      3);
  add("lying", {category_panel(true, BarLayout::stacked), category_panel(true, BarLayout::grouped)}, 2);
  add("upright", {category_panel(false, BarLayout::grouped), category_panel(false, BarLayout::stacked)}, 2);
  add("map", {map_panel()}, 1);
  Panel corner = line_panel(3, AxisScale::log2, AxisScale::log10);
  corner.legend = Legend::top_left;
  Series band{.name = "spread", .draw = Draw::band, .x = {1, 10, 2000}};
  band.low = {0.01, 0.02, 0.1}, band.high = {0.1, 1, 100};
  corner.series.push_back(band);
  add("corner", {corner}, 1);
  return plots;
}

}  // namespace test
