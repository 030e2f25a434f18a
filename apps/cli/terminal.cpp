#include "cli/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cli/crew.hpp"
#include "narrow/text/quote.hpp"

namespace app {
namespace {

int output_error = 0;  // errno of the first write that failed
thread_local Captured* captured = nullptr;

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

constexpr std::string_view reset = "\033[0m";

constexpr std::string_view sequence(Colour colour) {
  switch (colour) {
    case Colour::plain: break;
    case Colour::bold: return "\033[1m";
    case Colour::dim: return "\033[2m";
    case Colour::red: return "\033[31m";
    case Colour::green: return "\033[32m";
    case Colour::blue: return "\033[94m";  // plain blue is unreadable on black
    case Colour::yellow: return "\033[33m";
  }
  return reset;
}

// The length of a sequence that paint() writes, at the front of the text; 0 when it is none.
std::size_t own_sequence(std::string_view text) {
  for (int c = 0; c <= static_cast<int>(Colour::yellow); ++c)
    if (const std::string_view own = sequence(static_cast<Colour>(c)); text.starts_with(own)) return own.size();
  return 0;
}

// The last door: whatever a command forgot to quote, only text, our own line ends and our own colours go out.
std::string gated(std::string_view text, int file) {
  const bool colour = text.find('\033') != std::string_view::npos && use_colour(file);
  std::string out;
  while (!text.empty()) {
    const std::size_t own = colour ? own_sequence(text) : 0;
    out += text.substr(0, own);
    text.remove_prefix(own);
    if (own > 0) continue;
    const std::size_t next = colour ? std::min(text.find('\033', 1), text.size()) : text.size();
    out += narrow::visible(text.substr(0, next), "\n");
    text.remove_prefix(next);
  }
  return out;
}

}  // namespace

// mpirun reads what ranks say, some of it from a terminal that it makes up.
bool is_terminal(int file) { return captured == nullptr && crew() == nullptr && isatty(file) == 1; }

Captured::Captured() { captured = this; }
Captured::~Captured() { captured = nullptr; }

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
  return std::string(sequence(colour)) + narrow::visible(text, "\n") + std::string(reset);
}

void print(std::string_view text) {
  if (output_error != 0 || (captured == nullptr && !speaks())) return;
  const std::string inert = gated(text, 1);
  if (captured != nullptr) {
    captured->out += inert;
    return;
  }
  errno = 0;
  if (std::fwrite(inert.data(), 1, inert.size(), stdout) != inert.size()) output_error = errno != 0 ? errno : EIO;
}

void print_error(std::string_view text) {
  if (captured == nullptr && !speaks()) return;
  const std::string inert = gated(text, 2);
  if (captured != nullptr) captured->err += inert;
  else std::fwrite(inert.data(), 1, inert.size(), stderr);
}

void complain(std::string_view message) {
  // The front says what was asked, the back what is accepted: when both do not fit, the middle goes.
  constexpr std::size_t front = 200, back = 1200;
  std::string text = narrow::visible(message);
  if (text.size() > front + back) text = text.substr(0, front) + " ... " + text.substr(text.size() - back);
  print_error("narrow: " + text + "\n");
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
