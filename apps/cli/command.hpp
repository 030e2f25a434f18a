// What a subcommand is: a name, what it answers, an example, and one function that declares its arguments.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "narrow/base/error.hpp"

namespace CLI {
class App;
}

namespace app {

using Action = std::function<int()>;  // does the work, returns the exit status

// Declares arguments without showing CLI11 to the subcommands. The targets must outlive the parsing.
class Arguments {
 public:
  explicit Arguments(CLI::App& program) : program_(&program) {}

  void values(const char* name, std::vector<std::string>& target, const char* help);  // positional, any number
  void option(const char* flags, std::optional<std::string>& target, const char* value_name, const char* help);
  void flag(const char* flags, bool& target, const char* help);

 private:
  CLI::App* program_;
};

struct Command {
  const char* name;
  const char* summary;
  const char* example;
  Action (*declare)(Arguments&);
};

// Every subcommand; adding one is one file and one line here and in command_line.cpp.
extern const Command all_reduce_command;
extern const Command bench_command;
extern const Command cast_command;
extern const Command compare_command;
extern const Command dequantize_command;
extern const Command dot_command;
extern const Command explore_command;
extern const Command formats_command;
extern const Command gpu_command;
extern const Command gemm_command;
extern const Command histogram_command;
extern const Command inspect_command;
extern const Command lint_command;
extern const Command list_command;
extern const Command list_scaling_command;
extern const Command memory_command;
extern const Command models_command;
extern const Command notebook_command;
extern const Command quantize_command;
extern const Command report_command;
extern const Command run_command;
extern const Command scale_trace_command;
extern const Command show_command;
extern const Command stats_command;
extern const Command train_command;
extern const Command validate_command;

// Parses, runs the subcommand, returns its exit status. Throws narrow::Error for a request that cannot be met.
int run_command_line(int argc, const char* const* argv);

// Runs work; an Error that leaves it says which flag it was about.
template <class Work>
auto blame(std::string_view flag, Work&& work) {
  try {
    return work();
  } catch (const narrow::Error& error) {
    throw narrow::Error(std::string(flag) + ": " + error.what());
  }
}

}  // namespace app
