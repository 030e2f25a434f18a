// Commands that only the page has.
#pragma once

#include "cli/command.hpp"

namespace app {

extern const Command count_command, at_command;

}  // namespace app
