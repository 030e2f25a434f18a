// The program. Exit status: 0 done, 1 a check ran and failed, 2 a request that cannot be met (one line says why).
#include <csignal>
#include <exception>
#include <new>

#include "command.hpp"
#include "terminal.hpp"

int main(int argc, char** argv) {
  // A reader that leaves (| head -1) shows as a failed write, which finish_output takes as the end and not as an error.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return app::finish_output(app::run_command_line(argc, argv));
  } catch (const std::bad_alloc&) {
    app::complain("not enough memory for this request");
  } catch (const std::exception& error) {
    app::complain(error.what());
  }
  return 2;
}
