// Ctrl-C as a question: a long command finishes what it is at, keeps it or clears it away, and ends as the signal would
// have ended it. So with the signals of a closed terminal (SIGHUP), of kill and shutdown (SIGTERM), and
// Ctrl-\ (SIGQUIT).
#pragma once

#include <array>
#include <csignal>

namespace app {

class Interrupt {
 public:
  Interrupt();   // from now on the first of each only sets a mark; the second one ends the program
  ~Interrupt();  // as before
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool came() const;
  void pass_on() const;  // ends the program by the signal when it came

  static inline void (*also)() = nullptr;  // what else a signal does, in its handler

 private:
  static constexpr std::array signals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  std::array<struct sigaction, signals.size()> before_ = {};
};

}  // namespace app
