// Where a number stands among the values of a format: its binade, the step there, whole steps and what is left over.
#pragma once

#include <cstdint>

#include "narrow/format/format.hpp"
#include "narrow/text/exact_number.hpp"

namespace app {

// Where |x| stands on the ladder of a format: |x| = (kept + fraction) * 2^quantum with 0 <= fraction < 1.
struct Place {
  int binade = 0;          // floor(log2 |x|)
  int quantum = 0;         // exponent of one step here
  std::uint64_t kept = 0;  // whole steps; of the largest value when |x| is beyond it
  double fraction = 0;     // of the next step
  bool exact = false, tie = false;
  bool beyond = false;      // above the largest finite value
  bool far_beyond = false;  // at or above the step that would follow it
  bool below = false;       // under the smallest value of a format that has no zero
};

Place place_of(const narrow::ExactNumber& x, const narrow::Format& f);  // x: finite and not zero

narrow::ExactNumber magnitude_of(narrow::ExactNumber x);

}  // namespace app
