// The values of a format as HTML tables: every one where 8 bits or fewer hold them, else one line a binade.
#pragma once

#include <string>

#include "narrow/format/format.hpp"

namespace app {

// "0.125", or "3*2^-9" with a raised exponent where the decimal is longer than that: always exact.
std::string compact_value_html(narrow::Code code, const narrow::Format& f);

std::string value_table_html(const narrow::Format& f);   // of a format with at most 8 bits
std::string ladder_table_html(const narrow::Format& f);  // of a wider one: binades, their steps, their codes

}  // namespace app
