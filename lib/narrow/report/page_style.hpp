// The style sheet of the page: one column of text, pictures as wide as it, colours by role.
#pragma once

#include <string>

namespace narrow::report {

std::string page_style();

}  // namespace narrow::report
