// Histograms of binades as a plot: a panel a tensor and format, bars by what the format makes of them, its range as a
// ruler.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "narrow/report/plot.hpp"
#include "narrow/tensor/tensor_statistics.hpp"

namespace app {

struct NamedCounts {
  std::string name;
  narrow::BinadeCounts counts;
  std::vector<narrow::BinadeFates> fates;  // one a format
};

struct PlotFormat {
  std::string name;
  std::optional<narrow::Format> range;  // block formats have none: it moves with the block
};

inline constexpr std::size_t most_panel_rows = 64;

// The tensors side by side, or (pooled) all of them as one. about: what the subtitle says of the source.
narrow::report::Plot histogram_plot(const std::vector<NamedCounts>& all, const std::vector<PlotFormat>& formats, bool pooled,
                            const std::string& about);

}  // namespace app
