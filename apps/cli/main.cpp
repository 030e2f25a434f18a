// The program. Exit status: 0 done, 1 a check ran and failed, 2 a request that cannot be met (one line says why).
#include <new>

#include "cli/command.hpp"
#include "cli/signals.hpp"
#include "cli/terminal.hpp"
#include "narrow/simd/target.hpp"

int main(int argc, char** argv) {
  app::set_signals();
  try {
    (void)narrow::simd::current_target();  // NARROW_SIMD may name none
    return app::finish_output(app::run_command_line(argc, argv));
  } catch (const std::bad_alloc&) {
    app::complain(app::short_of_memory);
  } catch (const std::exception& error) {
    app::complain(error.what());
  }
  return 2;
}
