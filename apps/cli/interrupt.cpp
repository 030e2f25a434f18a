#include "cli/interrupt.hpp"

#include <cstdio>

namespace app {
namespace {

volatile std::sig_atomic_t mark = 0;

void remember(int signal) {
  mark = signal;
  if (Interrupt::also != nullptr) Interrupt::also();
}

}  // namespace

// A signal that is ignored when the program starts (nohup) stays ignored.
Interrupt::Interrupt() {
  mark = 0;
  struct sigaction ours = {};
  ours.sa_handler = remember;
  ours.sa_flags = static_cast<int>(SA_RESETHAND);
  for (std::size_t i = 0; i < signals.size(); ++i) {
    sigaction(signals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(signals[i], &ours, nullptr);
  }
}

Interrupt::~Interrupt() {
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
}

bool Interrupt::came() const { return mark != 0; }

void Interrupt::pass_on() const {
  if (mark == 0) return;
  std::fflush(stdout);
  std::signal(mark, SIG_DFL);
  std::raise(mark);
}

}  // namespace app
