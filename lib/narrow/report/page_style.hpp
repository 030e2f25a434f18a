// The style sheet of the page: one column of text, pictures as wide as it, colours by role.
#pragma once

#include <string>
#include <string_view>

namespace narrow::report {

std::string page_style();

// Of any page: the colours of roles with further ones for light and for dark, then the rules.
std::string style_sheet(std::string_view light, std::string_view dark, std::string_view rules);

}  // namespace narrow::report
