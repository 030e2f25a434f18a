// The program. Exit status: 0 done, 1 a check ran and failed, 2 a request that cannot be met (one line says why).
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <exception>
#include <new>

#include "command.hpp"
#include "terminal.hpp"

namespace {

constexpr const char* short_of_memory = "not enough memory for this request";

void say(const char* text) noexcept {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

// Where nothing catches: before main, and while a failure is said. It takes no memory, which may be what is missing.
[[noreturn]] void last_words() noexcept {
  say("narrow: ");
  try {
    if (const std::exception_ptr failure = std::current_exception()) std::rethrow_exception(failure);
    say("a mistake of the program");
  } catch (const std::bad_alloc&) {
    say(short_of_memory);
  } catch (const std::exception& error) {
    say(error.what());
  } catch (...) {
    say("a mistake of the program");
  }
  say("\n");
  _exit(2);
}

// Before the first object of any file is made: libraries have some that allocate.
[[gnu::constructor(101)]] void hear_failures() { std::set_terminate(last_words); }

}  // namespace

int main(int argc, char** argv) {
  // A reader that leaves (| head -1) shows as a failed write, which finish_output takes as the end and not as an error.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return app::finish_output(app::run_command_line(argc, argv));
  } catch (const std::bad_alloc&) {
    app::complain(short_of_memory);
  } catch (const std::exception& error) {
    app::complain(error.what());
  }
  return 2;
}
