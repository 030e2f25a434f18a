// Histograms of binades as a plot: bars by what the first format makes of them, the ranges of all formats as rulers.
#pragma once

#include <string>
#include <vector>

#include "format_list.hpp"
#include "narrow/report/plot.hpp"
#include "narrow/tensor/tensor_histogram.hpp"

namespace app {

struct NamedCounts {
  std::string name;
  narrow::BinadeCounts counts;
};

// Up to six tensors get a panel each; more are drawn together. about: what the subtitle says of the source.
narrow::Plot histogram_plot(const std::vector<NamedCounts>& all, const std::vector<ChosenFormat>& formats,
                            const std::string& about);

}  // namespace app
