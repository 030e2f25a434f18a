// Ctrl-C as a question: a long command finishes what it is at, keeps it, and ends as the signal would have ended it.
#pragma once

namespace app {

class Interrupt {
 public:
  Interrupt();   // from now on the first Ctrl-C only sets a mark; the second one ends the program
  ~Interrupt();  // as before
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool came() const;
  void pass_on() const;  // ends the program by the signal when it came
};

}  // namespace app
