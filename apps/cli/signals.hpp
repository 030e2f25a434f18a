// What ends the program from outside, and what it says then.
#pragma once

namespace app {

inline constexpr const char* short_of_memory = "not enough memory for this request";

void set_signals();  // first of all in main

}  // namespace app
