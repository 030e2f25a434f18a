// From codes to text: exact decimals, hex floats, the shortest decimal, and codes as digits.
#pragma once

#include <string>

#include "narrow/format/decode.hpp"

namespace narrow {

std::string to_decimal(Code code, const Format& f);    // every digit: "0.0999755859375", "-inf", "nan"
std::string to_shortest(Code code, const Format& f);   // the shortest decimal that nearest_even reads back: "0.1"
std::string to_hex_float(Code code, const Format& f);  // "0x1.998p-4"
std::string to_hex_code(Code code, const Format& f);   // "0x" and ceil(width / 4) upper-case digits

}  // namespace narrow
