// One number on its way into one format, step by step, in words: binade, steps, neighbours, decision, code, error.
#pragma once

#include <cstdint>
#include <string>

#include "narrow/round/cast.hpp"
#include "narrow/text/exact_number.hpp"
#include "options/format_list.hpp"

namespace app {

struct CastCase {
  std::string text;            // the number as it was typed
  narrow::ExactNumber number;  // what it is
  ChosenFormat target;
  narrow::Cast cast;
  std::uint64_t random = 0;
  narrow::Code code = 0;  // what the cast makes of it
};

// Every number is computed here by the library, and the neighbours are checked to hold the code.
std::string explain_cast(const CastCase& c, bool colour);

}  // namespace app
