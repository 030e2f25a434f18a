// Numbers as users write them: a scale (1024, 0.5, 0x1p-3, 2^12), a count.
#pragma once

#include <cstdint>
#include <string>

namespace app {

// A positive finite number; also: what else the flag accepts. Throws narrow::Error that names --scale.
double parse_scale(const std::string& text, const char* also = "");

// An integer from least to most. Throws narrow::Error that names the flag.
std::uint64_t parse_count(const std::string& text, const char* flag, std::uint64_t least, std::uint64_t most);

}  // namespace app
