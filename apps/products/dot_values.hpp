// Operands of a dot product as text: comma lists of values and codes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "narrow/dot/model.hpp"

namespace app {

struct DotValue {
  std::string text;  // as it was given
  narrow::Code code = 0;
  bool rounded = false;  // the format does not hold the value that was given
};

// One value (0.1, 0x1.8p-3, 2^-12, inf) or code (0x3C00) of a format. A tf32 code has 19 bits; eight hex digits are a
// word whose low 13 bits are ignored. Throws narrow::Error.
DotValue parse_dot_value(std::string_view text, const narrow::Format& format);
std::vector<DotValue> parse_dot_list(std::string_view list, const narrow::Format& format);

std::vector<narrow::Code> codes_of(const std::vector<DotValue>& values);

}  // namespace app
