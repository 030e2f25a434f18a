// From text to values: decimal and hex floats of any length to any format with one rounding, and codes.
#pragma once

#include <string_view>

#include "narrow/round/round_to.hpp"
#include "narrow/text/exact_number.hpp"

namespace narrow {

// "0.1", "-1e-7", "0x1.8p-3", "inf", "nan", ...: one rounding, whatever the length. Throws Error with the text and
// what is accepted.
Code parse_value(std::string_view text, const Format& f, const Cast& cast = {}, std::uint64_t random = 0);

// A code: "0x2E66" (also 0b101, plain decimal); Error when it is no number or has more bits than the format.
Code parse_code(std::string_view text, const Format& f);

}  // namespace narrow
