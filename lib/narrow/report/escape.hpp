// Texts of any origin as they may stand in HTML, Markdown and CSV.
#pragma once

#include <string>
#include <string_view>

namespace narrow {

std::string escaped_html(std::string_view text);      // & < > " as entities; control characters and broken UTF-8 as ?
std::string html_with_powers(std::string_view text);  // the same, and 2^-24 with a raised exponent
std::string escaped_markdown(std::string_view text);  // for a cell of a table: | and line ends
std::string csv_field(std::string_view text);         // in quotes where the text has a comma, a quote or a line end

}  // namespace narrow
