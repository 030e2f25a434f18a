// Exact values as one writes them when powers of two matter (1.5, 2^-25, 3*2^-27), and such texts read back.
#pragma once

#include <string>
#include <string_view>

#include "narrow/text/exact_number.hpp"

namespace narrow {

// Always exact, but for a significand of more than 64 bits ("..."): a short decimal, a power of two, a small odd number
// times one, else a hex float. Integers are decimals.
std::string binary_text(const ExactNumber& x, std::size_t longest_decimal = 10);
std::string binary_text(Code code, const Format& f);

std::string binade_text(int exponent);  // "2^-25"

// Everything that parse_number reads, and "2^-12", "-2^15", "1.5*2^-12". Throws Error.
ExactNumber parse_binary_number(std::string_view text);

}  // namespace narrow
