// A scale as users write it: 1024, 0.5, 0x1p-3, 2^12.
#pragma once

#include <string>

namespace app {

// A positive finite number; also: what else the flag accepts. Throws narrow::Error that names --scale.
double parse_scale(const std::string& text, const char* also = "");

}  // namespace app
