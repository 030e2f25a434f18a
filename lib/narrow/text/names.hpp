// The names of enumerators as users type them, and lists of what is accepted.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "narrow/format/decode.hpp"
#include "narrow/round/cast.hpp"

namespace narrow {

std::string_view name_of(Rounding);
std::string_view name_of(Overflow);
std::string_view name_of(Subnormals);
std::string_view name_of(Nan);
std::string_view name_of(ValueClass);

// Each throws Error: what was asked, what is accepted, and the closest accepted word.
Format require_format(std::string_view name);
Rounding parse_rounding(std::string_view name);
Overflow parse_overflow(std::string_view name);
Subnormals parse_subnormals(std::string_view name);

// The accepted word that is closest to `word` by edit distance; empty when none is close.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& accepted);

}  // namespace narrow
