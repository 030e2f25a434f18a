// Codes of one format to codes of another: one rounding an element, straight from the code.
#pragma once

#include <span>

#include "narrow/round/round_to.hpp"

namespace narrow {

// In and Out are uint8_t, 16, 32 or 64, each at least as wide as its format.
template <class In, class Out>
void convert_array(std::span<const In> in, const Format& from, std::span<Out> out, const Format& to, const Cast& cast = {},
                   std::uint64_t seed = 0, int threads = 0);

}  // namespace narrow
