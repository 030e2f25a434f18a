// Links narrow::plot: a picture by the library's own writer, which needs nothing that may not be installed.
#include <narrow/plot/draw.hpp>

using namespace narrow;

int main() {
  const report::Plot plot{.name = "line", .title = "A line", .panels = {{.series = {{.x = {0, 1}, .y = {0, 1}}}}}};
  const std::string svg = plot::draw(plot, plot::PictureKind::svg, {.backend = plot::PlotBackend::own});
  return svg.find("</svg>") != std::string::npos ? 0 : 1;
}
