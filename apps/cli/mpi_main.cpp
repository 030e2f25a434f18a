// narrow-mpi: the same commands over MPI ranks. The first rank speaks and writes; the others share what can be shared.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <new>
#include <string_view>

#include "cli/command.hpp"
#include "cli/crew.hpp"
#include "cli/interrupt.hpp"
#include "cli/signals.hpp"
#include "cli/terminal.hpp"
#include "narrow/cluster/mpi_crew.hpp"
#include "narrow/simd/target.hpp"
#include "narrow/tensor/new_file.hpp"

namespace {

// The commands whose work is shared; any other is the first rank's.
constexpr std::string_view shared[] = {"stats", "histogram", "compare", "cast", "train", "run", "report", "all-reduce"};

void end_with_the_others(int signal) {
  narrow::cluster::MpiCrew::say_who_died();
  narrow::NewFile::remove_temporaries();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

int main(int argc, char** argv) {
  app::set_signals();
  narrow::cluster::MpiCrew crew(argc, argv);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGXCPU, SIGUSR1, SIGUSR2})
    std::signal(signal, end_with_the_others);
  setenv("OMP_NUM_THREADS", std::to_string(crew.threads()).c_str(), 0);  // what the user says stands
  app::Interrupt::also = narrow::cluster::MpiCrew::say_who_died;
  app::set_crew(&crew);
  int status = 2;
  std::string failure;
  bool is_own = true;
  try {
    (void)narrow::simd::current_target();
    const std::string_view command = argc > 1 ? argv[1] : "";
    const bool takes_part =
        app::speaks() || std::find(std::begin(shared), std::end(shared), command) != std::end(shared);
    status = takes_part ? app::finish_output(app::run_command_line(argc, argv)) : 0;
  } catch (const narrow::cluster::MpiCrew::OthersFailed& error) {
    failure = error.what();
    is_own = false;
  } catch (const std::bad_alloc&) {
    failure = app::short_of_memory;
  } catch (const std::exception& error) {
    failure = error.what();
  }
  return crew.conclude(status, failure, is_own, [](const std::string& message) {
    app::set_crew(nullptr);  // whoever says it
    app::complain(message);
  });
}
