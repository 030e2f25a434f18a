// The reference card: one self-contained HTML page with the bit layout, limits and special codes of each format.
#pragma once

#include <string>
#include <vector>

#include "format_list.hpp"

namespace app {

std::string format_card(const std::vector<ChosenFormat>& formats);

}  // namespace app
