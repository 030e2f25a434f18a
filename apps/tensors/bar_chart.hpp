// A histogram of binades as a picture in text, with the ranges of formats as rulers beside it.
#pragma once

#include <string>
#include <vector>

#include "narrow/tensor/tensor_statistics.hpp"
#include "options/format_list.hpp"

namespace app {

//   2^-3   12345 ( 4.1%)  #########        # #
//   2^-14     12 (0.01%)  #                # :     # normal values of a format, : its subnormals
// A block format has what most values of the binade become. Largest exponent on top; zero, subnormals, Inf and NaN
// where there are any. width: columns, 0 for unlimited (100).
struct BlockColumn {
  std::string name;
  narrow::BinadeFates fates;
};
std::string bar_chart(const narrow::BinadeCounts& counts, const std::vector<ChosenFormat>& formats,
                      const std::vector<BlockColumn>& blocks, int width, bool colour);

}  // namespace app
