#include "interrupt.hpp"

#include <csignal>
#include <cstdio>
#include <initializer_list>

namespace app {
namespace {

volatile std::sig_atomic_t mark = 0;

void set_handler(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = handler == SIG_DFL ? 0 : static_cast<int>(SA_RESETHAND);
  sigaction(signal, &action, nullptr);
}

void remember(int signal) { mark = signal; }

}  // namespace

Interrupt::Interrupt() {
  mark = 0;
  for (const int signal : {SIGINT, SIGTERM}) set_handler(signal, remember);
}

Interrupt::~Interrupt() {
  for (const int signal : {SIGINT, SIGTERM}) set_handler(signal, SIG_DFL);
}

bool Interrupt::came() const { return mark != 0; }

void Interrupt::pass_on() const {
  if (mark == 0) return;
  std::fflush(stdout);
  set_handler(mark, SIG_DFL);
  std::raise(mark);
}

}  // namespace app
