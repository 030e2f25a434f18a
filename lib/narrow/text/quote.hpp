// A word from outside as it may stand in a message: in quotes, one line, printable, short.
#pragma once

#include <string>
#include <string_view>

namespace narrow {

// 'word'; everything but printable ASCII as \xNN, and "..." after 60 characters of the word.
std::string quote(std::string_view word);

}  // namespace narrow
