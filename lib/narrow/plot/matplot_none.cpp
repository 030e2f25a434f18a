// A build without Matplot++.
#include "narrow/base/error.hpp"
#include "narrow/plot/matplot.hpp"

namespace narrow::plot {

std::string matplot_fault() {
  return "this build has no Matplot++ (install it, then configure again: CMake finds it); gnuplot draws the same";
}

std::string draw_by_matplot(const Scene&, PictureKind) { throw Error(matplot_fault()); }

}  // namespace narrow::plot
