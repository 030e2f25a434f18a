// Matplot++, where it was asked for (NARROW_MATPLOT); elsewhere a reason why not.
#pragma once

#include <string>

#include "narrow/plot/draw.hpp"
#include "narrow/plot/scene.hpp"

namespace narrow::plot {

std::string matplot_fault();  // empty when it is built in
// What it has for gnuplot; the picture goes to standard output.
std::string matplot_script(const Scene& scene, PictureKind kind, double scale);

}  // namespace narrow::plot
