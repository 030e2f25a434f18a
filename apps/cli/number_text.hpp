// Numbers for people: exact where that fits, and never with fewer digits than one can work with.
#pragma once

#include <string>

#include "narrow/format/format.hpp"

namespace app {

// Every digit when that is at most 40 characters; longer ones are cut ("..."), and very small or very large ones are
// given by enough digits to read them back ("~").
std::string exact_text(narrow::Code code, const narrow::Format& f);

// Every digit when that is at most 17 characters, else enough digits to read it back, and six at least: the shortest
// decimal alone would write 448 in e4m3 as 450.
std::string short_text(narrow::Code code, const narrow::Format& f);

// A limit of a format in a table: exact up to 9 characters, else five digits.
std::string limit_text(double x);

std::string decimal_text(double x, int decimals);  // as %.*f
std::string digits_text(double x, int digits);     // as %.*g
std::string scale_text(double scale);              // "2^12", "1", "0.3"

}  // namespace app
