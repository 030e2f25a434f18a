#include "cli/signals.hpp"

#include <unistd.h>

#include <csignal>
#include <cstring>
#include <exception>
#include <new>

#include "narrow/tensor/mapped_file.hpp"
#include "narrow/tensor/new_file.hpp"

namespace app {
namespace {

void say(const char* text) noexcept {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

// Where nothing catches: before main, and while a failure is said. It takes no memory, which may be what is missing.
[[noreturn]] void last_words() noexcept {
  say("narrow: ");
  try {
    if (const std::exception_ptr failure = std::current_exception()) std::rethrow_exception(failure);
    say("ended by a mistake of the program, or for want of memory");
  } catch (const std::bad_alloc&) {
    say(short_of_memory);
  } catch (const std::exception& error) {
    say(error.what());
  } catch (...) {
    say("ended by a mistake of the program, or for want of memory");
  }
  say("\n");
  _exit(2);
}

// Before the first object of any file is made: libraries have some that allocate.
[[gnu::constructor(101)]] void hear_failures() { std::set_terminate(last_words); }

// A mapped file that is cut in the middle of a piece has no bytes to give: the request ends as any other that cannot be
// met. Anything else that raises SIGBUS ends as it would without the handler.
void end_at_missing_bytes(int signal, siginfo_t* info, void*) {
  const char* message = info->si_code == BUS_ADRERR ? narrow::MappedFile::message_at(info->si_addr) : nullptr;
  if (message == nullptr) {
    std::signal(signal, SIG_DFL);
    return;  // the same access raises it again
  }
  say("narrow: "), say(message), say("\n");
  narrow::NewFile::remove_temporaries();
  _exit(2);
}

}  // namespace

void set_signals() {
  // A reader that leaves (| head -1) shows as a failed write, which finish_output takes as the end and not as an error.
  // A limit on the size of files shows as a failed write, too.
  for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
  struct sigaction action = {};
  action.sa_sigaction = end_at_missing_bytes;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace app
