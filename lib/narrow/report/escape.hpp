// Texts of any origin as they may stand in HTML, Markdown and CSV.
#pragma once

#include <string>
#include <string_view>

#include "narrow/text/quote.hpp"

namespace narrow::report {

std::string escaped_html(std::string_view text);      // & < > " as entities; the rest visible(), lines and tabs stay
std::string html_with_powers(std::string_view text);  // the same, and 2^-24 with a raised exponent
std::string escaped_markdown(std::string_view text);  // for a cell of a table: | \ and line ends; no link, no element

// A text in a cell: in quotes where it has a separator, a quote or a line end, and with an apostrophe in front where a
// spreadsheet would take it for a formula (=, +, -, @). Numbers stay: -1.5, +inf.
std::string csv_field(std::string_view text);
std::string csv_comment(
    std::string_view text);  // "# text" and the end of the line; none of its commas starts a formula

}  // namespace narrow::report
