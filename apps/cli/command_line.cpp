// From argv to a subcommand; every way to get it wrong becomes one line that says what would be right.
#include <CLI/CLI.hpp>

#include "cli/command.hpp"
#include "cli/explanation.hpp"
#include "cli/terminal.hpp"
#include "narrow/base/version.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/text/text.hpp"

namespace app {
namespace {

constexpr const Command* commands[] = {
    &formats_command,   &show_command,         &inspect_command,     &cast_command,       &stats_command,
    &histogram_command, &compare_command,      &quantize_command,    &dequantize_command, &lint_command,
    &models_command,    &dot_command,          &gemm_command,        &op_command,         &validate_command,
    &gpu_command,       &list_scaling_command, &scale_trace_command, &train_command,      &all_reduce_command,
    &memory_command,    &bench_command,        &list_command,        &run_command,        &report_command,
    &notebook_command,  &explore_command,      &manual_command,      &complete_command};

// CLI11 would read -inf as flags -i -n -f. A negative number travels through it with this byte for its minus sign.
constexpr char hidden_minus = '\x1F';

bool is_negative_number(std::string_view word) {
  word = word.substr(0, word.find(','));  // the first of a list
  if (word.size() < 2 || word[0] != '-') return false;
  const auto is = [&](std::string_view name) { return narrow::detail::same_word(word.substr(1), name); };
  const char first = word[1];
  return (first >= '0' && first <= '9') || first == '.' || is("inf") || is("infinity") || is("nan");
}

std::string hide_minus(std::string word) {
  if (is_negative_number(word)) word[0] = hidden_minus;
  return word;
}

std::string show_minus(std::string word) {
  if (!word.empty() && word[0] == hidden_minus) word[0] = '-';
  return word;
}

// The first word that nobody wanted: an unknown subcommand, an unknown flag, or one value too many.
[[noreturn]] void refuse_extra(const CLI::App& program, const CLI::App* chosen) {
  const CLI::App& asked = chosen != nullptr ? *chosen : program;
  std::vector<std::string> extras = asked.remaining();
  if (extras.empty()) extras = program.remaining(true);
  const std::string word = extras.empty() ? std::string() : show_minus(extras.front());
  const std::string where = chosen != nullptr ? chosen->get_name() + ": " : "";
  const std::string help = "narrow " + (chosen != nullptr ? chosen->get_name() + " " : "") + "--help";
  if (!word.empty() && word[0] == '-') {
    std::vector<std::string> names;
    for (const CLI::Option* option : asked.get_options()) names.push_back(option->get_name(false, true));
    std::vector<std::string> flags;
    for (const std::string& list : names)
      for (const std::string& flag : CLI::detail::split(list, ',')) flags.push_back(flag);
    const std::vector<std::string_view> accepted(flags.begin(), flags.end());
    const std::string name = word.substr(0, word.find('='));
    throw narrow::Error(where + "unknown option '" + name + "'; " + narrow::hint(name, accepted) + "see " + help);
  }
  if (chosen != nullptr) throw narrow::Error(where + "unexpected argument '" + word + "'; see " + help);
  std::vector<std::string_view> accepted;
  std::string list;
  for (const Command* command : commands) {
    accepted.emplace_back(command->name);
    list += (list.empty() ? "" : ", ") + std::string(command->name);
  }
  throw narrow::Error("unknown command '" + word + "'; " + narrow::hint(word, accepted) + "commands: " + list);
}

// CLI11 says "--flag: what is wrong"; the description of the flag says what would be right.
[[noreturn]] void refuse(const CLI::ParseError& error, const CLI::App* chosen) {
  std::string message = error.what();
  for (char& c : message)
    if (c == hidden_minus) c = '-';
  if (chosen == nullptr) throw narrow::Error(message + "; see narrow --help");
  const CLI::Option* option = chosen->get_option_no_throw(message.substr(0, message.find_first_of(": ")));
  const std::string right = option != nullptr ? " (" + option->get_description() + ")" : "";
  throw narrow::Error(chosen->get_name() + ": " + message + right + "; see narrow " + chosen->get_name() + " --help");
}

void add(CLI::App& program, const Argument& a) {
  if (a.flag != nullptr) program.add_flag(a.flags, *a.flag, a.help);
  // results() as they came: CLI11's own conversion would drop empty words and open brackets.
  if (a.values != nullptr)
    program
        .add_option(
            a.flags,
            [target = a.values](const CLI::results_t& words) {
              for (const std::string& word : words) target->push_back(show_minus(word));
              return true;
            },
            a.help)
        ->type_name("")
        ->expected(-1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  if (a.option != nullptr)
    program
        .add_option(
            a.flags,
            [target = a.option](const CLI::results_t& words) {
              *target = show_minus(words.front());
              return true;
            },
            a.help)
        ->type_name(a.value_name)
        ->expected(1);
}

std::string description(const Command& command) {
  std::string text = command.summary;
  for (const std::string& paragraph : paragraphs_of(command.about)) text += "\n\n" + wrapped(paragraph, 0);
  return text + "\n";
}

std::string examples() {
  std::string text = "Examples:\n";
  for (const Command* command : commands) text += std::string("  ") + command->example + "\n";
  return text + "\nExit status: 0 done, 1 a check ran and failed, 2 a request that cannot be met.";
}

}  // namespace

std::vector<Definition> definitions() {
  std::vector<Definition> all;
  for (const Command* command : commands) {
    Arguments arguments;
    Action action = command->declare(arguments);
    all.push_back({command, arguments.all(), std::move(action)});
  }
  return all;
}

int run_command_line(int argc, const char* const* argv) {
  CLI::App program("Number formats of machine learning, bit for bit", "narrow");
  program.set_version_flag("--version", std::string("narrow ") + narrow::version, "the version of narrow");
  program.set_help_flag("-h,--help", "this help");
  program.footer(examples());
  program.require_subcommand(0, 1);

  const std::vector<Definition> all = definitions();
  std::vector<CLI::App*> apps;
  for (const Definition& d : all) {
    CLI::App* sub = program.add_subcommand(d.command->name, d.command->summary);
    sub->set_help_flag("-h,--help", "this help");
    sub->footer(std::string("Example:\n  ") + d.command->example);
    for (const Argument& argument : d.arguments) add(*sub, argument);
    apps.push_back(sub);
  }
  const auto chosen = [&]() -> CLI::App* {
    const auto parsed = program.get_subcommands();
    return parsed.empty() ? nullptr : parsed.front();
  };

  std::vector<std::string> words;  // CLI11 takes them last first
  for (int i = argc - 1; i > 0; --i) words.push_back(hide_minus(argv[i]));
  try {
    program.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    for (std::size_t i = 0; i < apps.size(); ++i)  // in the list of commands a line is enough
      if (apps[i] == chosen()) apps[i]->description(description(*all[i].command));
    print(chosen() != nullptr ? chosen()->help("narrow") : program.help());
    return 0;
  } catch (const CLI::CallForVersion& version) {
    print(std::string(version.what()) + "\n");
    return 0;
  } catch (const CLI::ExtrasError&) {
    refuse_extra(program, chosen());
  } catch (const CLI::ParseError& error) {
    refuse(error, chosen());
  }
  for (std::size_t i = 0; i < apps.size(); ++i)
    if (apps[i]->parsed()) return all[i].action();
  print_error(program.help());
  return 2;
}

}  // namespace app
