// From a plot specification to the bytes of a picture, by whatever is there to draw with.
//
//   report::Plot plot{.name = "line", .title = "A line", .panels = {{.series = {{.x = {0, 1}, .y = {0, 1}}}}}};
//   const std::string svg = plot::draw(plot, plot::PictureKind::svg, {.backend = plot::PlotBackend::own});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "narrow/report/plot.hpp"

namespace narrow::plot {

// The kinds of file.
enum class PictureKind : std::uint8_t { png, svg };

// automatic: gnuplot, else (for SVG only) the library's own writer. Matplot++, where it was built in, is for those who
// ask for it: it needs gnuplot as well and draws the same layout.
enum class PlotBackend : std::uint8_t { automatic, gnuplot, matplot, own };

PlotBackend parse_backend(std::string_view name);  // throws Error with what is accepted

// What is drawn with, and how large.
struct DrawOptions {
  PlotBackend backend = PlotBackend::automatic;
  double png_scale = 2;  // pixels of the PNG for one of the layout
};

// Throws Error: nothing to draw with (and what to install), or the backend failed (and what it said).
std::string draw(const report::Plot& plot, PictureKind kind, const DrawOptions& options = {});

// Why draw() will not make that kind of picture, in one line that says what to install; empty when it will.
std::string why_not(PictureKind kind, const DrawOptions& options = {});

// The picture without its title, as an element of an HTML page that has the colours of the palette as variables.
std::string draw_inline(const report::Plot& plot);

}  // namespace narrow::plot
