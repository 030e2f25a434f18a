// Decimal digits and how they are written down: plain, or with an exponent.
#pragma once

#include <optional>
#include <string>

#include "narrow/text/exact_number.hpp"

namespace narrow::detail {

// d.ddd * 10^exponent; the last digit is not 0.
struct Decimal {
  std::string digits;
  int exponent = 0;
};

// Every digit of a finite number that is not zero; power_of_ten must be 0, as in the value of a code.
Decimal exact_decimal(const ExactNumber& x);

// Plain ("1203.5") when least <= exponent <= most, else "1.2035e+03"; the exponent has a sign and two digits or more.
std::string lay_out(bool negative, const Decimal& decimal, int least, int most);

// "0", "-0", "inf", "-inf", "nan"; empty for every other number.
std::optional<std::string> special_text(const ExactNumber& x);

}  // namespace narrow::detail
