// A sum of products without any rounding: what a result is compared with when every digit counts.
#pragma once

#include "narrow/format/decode.hpp"
#include "narrow/text/exact_number.hpp"

namespace narrow {

class ExactSum {
 public:
  void add(bool negative, U128 significand, int exponent);  // (-1)^negative * significand * 2^exponent
  void add(Code code, const Format& f);                     // a finite value
  void add_product(Code a, const Format& fa, Code b, const Format& fb);
  void add(const ExactNumber& x, bool turned = false);  // finite, power_of_ten 0; turned: subtracted

  ExactNumber value() const;  // an odd significand, or zero

 private:
  BigUnsigned plus_, minus_;  // units of 2^lowest_
  int lowest_ = 0;
};

// A number of quanta 2^exponent.
ExactNumber exact_quanta(std::int64_t quanta, int exponent);

}  // namespace narrow
