// Matplot++, in programs that link it (NARROW_MATPLOT). The library knows only the hook, so that whoever uses it does not need
// Matplot++.
#pragma once

#include <string>

#include "narrow/plot/draw.hpp"
#include "narrow/plot/scene.hpp"

namespace narrow::plot {

// What Matplot++ has for gnuplot; the picture goes to standard output. Null where it is not linked.
using MatplotScript = std::string (*)(const Scene& scene, PictureKind kind, double scale);
extern MatplotScript matplot_script;

}  // namespace narrow::plot
