// A scene as a gnuplot script: gnuplot is the pen, every place has been decided.
#pragma once

#include <string>

#include "narrow/plot/draw.hpp"
#include "narrow/plot/scene.hpp"

namespace narrow::plot {

// Writes the picture to standard output. scale: pixels of the PNG for one of the scene.
std::string gnuplot_script(const Scene& scene, PictureKind kind, double scale);

}  // namespace narrow::plot
