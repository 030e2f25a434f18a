// A build without Matplot++.
#include "narrow/base/error.hpp"
#include "narrow/plot/matplot.hpp"

namespace narrow::plot {

std::string matplot_fault() {
  return "this build has no Matplot++ (configure with -DNARROW_MATPLOT=ON); gnuplot draws the same";
}

std::string matplot_script(const Scene&, PictureKind, double) { throw Error(matplot_fault()); }

}  // namespace narrow::plot
