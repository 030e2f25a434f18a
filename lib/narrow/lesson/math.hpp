// A formula in the part of TeX that lessons use, as HTML: nothing is fetched for it, no font for mathematics is needed.
#pragma once

#include <string>
#include <string_view>

namespace lesson {

// display: on a line of its own, with limits above and below a sum. The classes are those of style.cpp; readers
// who hear the page get the TeX. Throws narrow::Error that names what it does not know or what is not closed.
std::string formula_html(std::string_view tex, bool display);

}  // namespace lesson
