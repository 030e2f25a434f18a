// The reference card of one format: bits, rules, limits, special codes and values, on one printed page.
#pragma once

#include <string>
#include <string_view>

#include "options/format_list.hpp"

namespace app {

std::string format_page(const ChosenFormat& chosen);  // a <section class="page">
extern const std::string_view page_style;             // CSS for such sections

}  // namespace app
