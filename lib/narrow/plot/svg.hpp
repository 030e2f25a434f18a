// A scene as SVG: on its own with colours on white paper, or for a page whose style sheet has the colours of the roles.
#pragma once

#include <string>
#include <string_view>

#include "narrow/plot/scene.hpp"

namespace narrow::plot {

// A whole file, readable by anything that reads SVG.
std::string to_svg_file(const Scene& scene);

// An <svg> element for an HTML page: colours are variables (--blue, --grid, ..), so one picture serves light and dark.
std::string to_svg_element(const Scene& scene);

}  // namespace narrow::plot
