// Matplot++, where CMake found it; elsewhere a reason why not.
#pragma once

#include <string>

#include "narrow/plot/draw.hpp"
#include "narrow/plot/scene.hpp"

namespace narrow::plot {

std::string matplot_fault();  // empty when it is built in
std::string draw_by_matplot(const Scene& scene, PictureKind kind);

}  // namespace narrow::plot
