// Loss scales over steps as a picture in text: one letter a policy, one row a power of two.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace app {

struct ScaleCurve {
  char letter;
  std::string name;
  std::vector<float> scales;  // one a step; may end early
};

// width: columns of the picture. Of curves that meet in one place the first is seen. A scale of 0 lies on the last row.
std::string scale_plot(const std::vector<ScaleCurve>& curves, const std::vector<std::int64_t>& steps, int width);

// A letter for each name that no other has: one of its own where possible.
std::vector<char> choose_letters(const std::vector<std::string>& names);

}  // namespace app
