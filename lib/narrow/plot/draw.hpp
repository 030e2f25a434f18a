// From a plot specification to the bytes of a picture, by whatever is there to draw with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "narrow/report/plot.hpp"

namespace narrow::plot {

enum class PictureKind : std::uint8_t { png, svg };

// automatic: gnuplot, else Matplot++ where it was built in, else (for SVG only) the library's own writer.
enum class PlotBackend : std::uint8_t { automatic, gnuplot, matplot, own };

PlotBackend parse_backend(std::string_view name);  // throws Error with what is accepted

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
