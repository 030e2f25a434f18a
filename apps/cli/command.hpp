// What a subcommand is: a name, what it answers, an example, one function that declares its arguments, and what the
// manual says about it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "narrow/base/error.hpp"

namespace app {

using Action = std::function<int()>;  // does the work, returns the exit status

// One argument as it was declared; one of the targets is not null. They must outlive the parsing.
struct Argument {
  std::string flags;  // "-o,--output", or the name of the values that stand without a flag
  std::string value_name, help;
  std::vector<std::string>* values = nullptr;    // positional, any number
  std::optional<std::string>* option = nullptr;  // with a value
  bool* flag = nullptr;                          // without

  std::vector<std::string> names() const;  // {"-o", "--output"}
};

// What a subcommand declares itself on: parsing, help, manual and completion all read this list.
class Arguments {
 public:
  void values(const char* name, std::vector<std::string>& target, const char* help) {
    all_.push_back({.flags = name, .value_name = {}, .help = help, .values = &target});
  }
  void option(const char* flags, std::optional<std::string>& target, const char* value_name, const char* help) {
    all_.push_back({.flags = flags, .value_name = value_name, .help = help, .option = &target});
  }
  void flag(const char* flags, bool& target, const char* help) {
    all_.push_back({.flags = flags, .value_name = {}, .help = help, .flag = &target});
  }
  const std::vector<Argument>& all() const { return all_; }

 private:
  std::vector<Argument> all_;
};

struct Command {
  const char* name;
  const char* summary;
  const char* example;
  Action (*declare)(Arguments&);
  const char* about;  // paragraphs, with an empty line between
};
std::vector<std::string> paragraphs_of(std::string_view about);

// A subcommand of this program, with what it declared.
struct Definition {
  const Command* command;
  std::vector<Argument> arguments;
  Action action;

  const Argument* find(std::string_view flag) const;  // nullptr: it has none
  const Argument* positional() const;
};
std::vector<Definition> definitions();  // in the order of the help

// Every subcommand; adding one is one file and one line here and in command_line.cpp.
extern const Command all_reduce_command;
extern const Command bench_command;
extern const Command cast_command;
extern const Command compare_command;
extern const Command complete_command;
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
extern const Command manual_command;
extern const Command memory_command;
extern const Command models_command;
extern const Command notebook_command;
extern const Command op_command;
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
