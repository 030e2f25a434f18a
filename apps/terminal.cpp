#include "terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace app {
namespace {

int output_error = 0;  // errno of the first write that failed

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

// The length of the UTF-8 sequence at the front; 0 when it is broken. Overlong forms pass: they only look odd.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = byte(0) < 0x80   ? 1
                             : byte(0) < 0xC2 ? 0
                             : byte(0) < 0xE0 ? 2
                             : byte(0) < 0xF0 ? 3
                             : byte(0) < 0xF5 ? 4
                                              : 0;
  if (length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  return length;
}

// What a user typed may hold line ends, escape sequences or broken UTF-8: each such byte becomes a question mark.
std::string one_line(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (length == 0 || first < 0x20 || first == 0x7F) line += '?';
    else line += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return line;
}

}  // namespace

bool is_terminal(int file) { return isatty(file) == 1; }

bool use_colour(int file) {
  const char* term = std::getenv("TERM");
  return is_terminal(file) && !is_set("NO_COLOR") && !(term != nullptr && std::strcmp(term, "dumb") == 0);
}

int terminal_width(int file) {
  winsize size{};
  if (!is_terminal(file) || ioctl(file, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col > 0 ? size.ws_col : 80;
}

std::string paint(std::string_view text, Colour colour, bool enabled) {
  if (!enabled || colour == Colour::plain || text.empty()) return std::string(text);
  const char* code = "0";
  switch (colour) {
    case Colour::plain: break;
    case Colour::bold: code = "1"; break;
    case Colour::dim: code = "2"; break;
    case Colour::red: code = "31"; break;
    case Colour::green: code = "32"; break;
    case Colour::blue: code = "94"; break;  // plain blue is unreadable on black
    case Colour::yellow: code = "33"; break;
  }
  return "\033[" + std::string(code) + "m" + std::string(text) + "\033[0m";
}

void print(std::string_view text) {
  if (output_error != 0) return;
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) output_error = errno != 0 ? errno : EIO;
}

void print_error(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

void complain(std::string_view message) {
  // The front says what was asked, the back what is accepted: when both do not fit, the middle goes.
  constexpr std::size_t front = 200, back = 1200;
  std::string text = one_line(message);
  if (text.size() > front + back) text = text.substr(0, front) + " ... " + text.substr(text.size() - back);
  print_error("narrow: " + one_line(text) + "\n");
}

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) != 0 && output_error == 0) output_error = errno != 0 ? errno : EIO;
}

int finish_output(int status) {
  flush_output();
  if (output_error == 0 || output_error == EPIPE) return status;
  complain(std::string("standard output: ") + std::strerror(output_error));
  return 2;
}

}  // namespace app
