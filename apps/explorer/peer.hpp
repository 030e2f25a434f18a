// Who is at the other end of a connection within this machine.
#pragma once

namespace app {

// Whether a program of this user opened the other end. Another user can read the command line of a browser, and the
// address in it. True also where the system does not tell (no /proc).
bool is_of_this_user(int connection);

}  // namespace app
