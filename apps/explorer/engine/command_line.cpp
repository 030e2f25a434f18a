// From the words of a request to a command, without CLI11: its help and its guesses would be half of what a page loads.
#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "explorer/engine/counts.hpp"
#include "narrow/base/version.hpp"

namespace app {

namespace {

constexpr const Command* commands[] = {&formats_command,     &show_command,   &inspect_command, &stats_command,
                                       &histogram_command,   &models_command, &dot_command,     &list_scaling_command,
                                       &scale_trace_command, &count_command,  &at_command,    &piece_command, &part_command,
                                       &counted_command};

// -inf, -.5 and -1e3 are values; -o is a flag.
bool is_flag(std::string_view word) {
  if (word.size() < 2 || word[0] != '-') return false;
  return word[1] == '-' || !((word[1] >= '0' && word[1] <= '9') || word[1] == '.' || word == "-inf" ||
                             word == "-infinity" || word == "-nan");
}

}  // namespace

int run_command_line(int argc, const char* const* argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) throw narrow::Error("no command");
  if (words[0] == "--version") return print(std::string("narrow ") + narrow::version + "\n"), 0;
  for (const Command* command : commands) {
    if (words[0] != command->name) continue;
    Arguments arguments;
    const Action action = command->declare(arguments);
    const Definition program{command, arguments.all(), action};
    bool only_values = false;  // after --
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (words[i] == "--" && !only_values) {
        only_values = true;
        continue;
      }
      if (only_values || !is_flag(words[i])) {
        if (program.positional() == nullptr) throw narrow::Error(words[0] + ": unexpected argument '" + words[i] + "'");
        program.positional()->values->push_back(words[i]);
        continue;
      }
      const std::size_t equals = words[i].find('=');
      const Argument* option = program.find(std::string_view(words[i]).substr(0, equals));
      if (option == nullptr) throw narrow::Error(words[0] + ": unknown option '" + words[i] + "'");
      if (option->flag != nullptr) *option->flag = true;
      else if (equals != std::string::npos) *option->option = words[i].substr(equals + 1);
      else if (i + 1 < words.size()) *option->option = words[++i];
      else throw narrow::Error(words[0] + ": " + words[i] + " needs a value");
    }
    return action();
  }
  throw narrow::Error("the page has no command '" + words[0] + "'");
}

}  // namespace app
