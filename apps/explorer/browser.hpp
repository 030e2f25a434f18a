// The browser of whoever sits in front of the machine.
#pragma once

#include <string>

namespace app {

// Starts it with that address, where there is a display and a program that knows the browser (xdg-open; open on
// macOS), and does not wait for it. It is not ended with this program. False when there is none.
bool open_browser(const std::string& address);

}  // namespace app
