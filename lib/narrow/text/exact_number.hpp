// The exact value of a text, and what can be done with it: compare, round once to any format, measure an error.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>

#include "narrow/round/round_exact.hpp"
#include "narrow/text/big_unsigned.hpp"

namespace narrow {

enum class NumberKind : std::uint8_t { finite, inf, nan };

// (-1)^negative * (significand + tail) * 2^power_of_two * 10^power_of_ten with tail = 0, or 0 < tail < 1 when sticky.
// Sticky are only texts of more than 1200 significant digits and values outside 10^-2000 .. 10^2000, which keep their
// order towards every other number but not among themselves.
struct ExactNumber {
  NumberKind kind = NumberKind::finite;
  bool negative = false;
  BigUnsigned significand;
  int power_of_two = 0;
  int power_of_ten = 0;
  bool sticky = false;

  bool is_zero() const noexcept { return kind == NumberKind::finite && significand.is_zero() && !sticky; }
};

// Decimals (0.1, -1e-7), hex floats (0x1.8p-3; a 'p' or a '.' makes the difference to a code), inf, infinity and nan in
// any letter case; blanks around are ignored. Time grows linearly with the length. Throws Error.
ExactNumber parse_number(std::string_view text);

// The exact value of a code.
ExactNumber exact_number(Code code, const Format& f);

// By value: both zeros are equal, NaN is unordered.
std::partial_ordering compare(const ExactNumber& a, const ExactNumber& b);

// The leading 128 bits of a finite number, and whether anything is below them.
Exact leading_bits(const ExactNumber& x);

// One rounding, whatever the length of the text. A text has no carrier, so Subnormals::flush_inputs finds nothing to
// flush; only cast.through_fp32 gives it one: the number is rounded to FP32 (nearest even), and then that is cast.
Code round_number(const ExactNumber& x, const Format& f, const Cast& cast = {}, std::uint64_t random = 0);

// (result - input) / quantum, correctly rounded. The quantum is 2^(e - mantissa_bits), e = floor(log2 |input|) held
// between min_exponent and max_exponent; integer formats have one quantum. 0 means equal (also Inf for inf); a nonzero
// error never becomes 0. A result of Inf gives an infinite error, NaN on either side gives NaN.
double ulp_error(const ExactNumber& input, Code result, const Format& f);

namespace detail {

// Two finite magnitudes (without their tails) as integers in one unit, 2^power_of_two * 10^power_of_ten.
struct Aligned {
  BigUnsigned a, b;
  int power_of_two, power_of_ten;
};
Aligned align(const ExactNumber& a, const ExactNumber& b);

}  // namespace detail

}  // namespace narrow
