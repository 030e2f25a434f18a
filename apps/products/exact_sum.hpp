// A sum of products without any rounding: what a result is compared with when every digit counts.
#pragma once

#include "narrow/format/decode.hpp"
#include "narrow/text/exact_number.hpp"

namespace app {

class ExactSum {
 public:
  void add(bool negative, narrow::U128 significand, int exponent);  // (-1)^negative * significand * 2^exponent
  void add(narrow::Code code, const narrow::Format& f);             // a finite value
  void add_product(narrow::Code a, const narrow::Format& fa, narrow::Code b, const narrow::Format& fb);
  void add(const narrow::ExactNumber& x, bool turned = false);  // finite, power_of_ten 0; turned: subtracted

  narrow::ExactNumber value() const;  // an odd significand, or zero

 private:
  narrow::BigUnsigned plus_, minus_;  // units of 2^lowest_
  int lowest_ = 0;
};

// A number of quanta 2^exponent.
narrow::ExactNumber exact_quanta(std::int64_t quanta, int exponent);

}  // namespace app
