// Standard output and standard error: colour, width, and what to do when nobody reads.
#pragma once

#include <string>
#include <string_view>

#include "narrow/report/text_table.hpp"

namespace app {

using narrow::report::Align, narrow::report::TextCell, narrow::report::TextTable;

enum class Colour { plain, bold, dim, red, green, blue, yellow };

bool is_terminal(int file);
bool use_colour(int file);     // a terminal, and NO_COLOR is not set
int terminal_width(int file);  // columns; 0 when it is no terminal

std::string paint(std::string_view text, Colour colour, bool enabled);  // what is in it is text and steers nothing

// Both pass text, line ends and the colours of paint() where the file shows colours; all else comes out visible().
void print(std::string_view text);        // to standard output
void print_error(std::string_view text);  // to standard error
void complain(std::string_view message);  // "narrow: message" on standard error, always one readable line

// While it lives, print() and print_error() of this thread go here, and nothing is a terminal to it.
class Captured {
 public:
  Captured();
  ~Captured();
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  std::string out, err;
};

void flush_output();  // what was printed so far goes out

// Flushes. A reader that left is not an error; a full disk is: then it complains and the status becomes 2.
int finish_output(int status);

}  // namespace app
