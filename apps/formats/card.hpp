// The reference card: one self-contained HTML file, a printed page a format; several formats begin with an overview.
#pragma once

#include <string>
#include <vector>

#include "options/format_list.hpp"

namespace app {

std::string format_card(const std::vector<ChosenFormat>& formats);

}  // namespace app
