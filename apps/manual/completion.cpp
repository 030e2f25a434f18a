#include "manual/completion.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>

#include "analysis/framework/experiment.hpp"
#include "analysis/framework/run_folders.hpp"
#include "cli/command.hpp"
#include "narrow/dot/model.hpp"
#include "narrow/scale/scaler_table.hpp"
#include "narrow/tensor/layout/layout.hpp"
#include "narrow/tensor/watched_run.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/train/policy/recipe.hpp"
#include "options/format_list.hpp"
#include "options/tensor_choice.hpp"

namespace app {
namespace {

using Candidates = std::vector<Candidate>;

struct Place {
  const Definition& definition;
  const Argument& argument;
  std::vector<std::string> values;  // the words before that belong to no option
  std::string text;                 // what is written of the value
};

void add(Candidates& to, std::string_view word, std::string_view help = {}) {
  to.push_back({std::string(word), std::string(help)});
}

Candidates command_words(const std::vector<Definition>& definitions) {
  Candidates all;
  for (const Definition& d : definitions) add(all, d.command->name, d.command->summary);
  return all;
}
Candidates command_words(const Place&) { return command_words(definitions()); }

Candidates no_words(const Place&) { return {}; }

Candidates block_format_words(const Place&) {
  Candidates all;
  for (const narrow::BlockFormatRow& row : narrow::block_format_table()) add(all, row.name, row.source);
  return all;
}

Candidates plain_format_words(const Place&) {
  Candidates all;
  for (const ChosenFormat& f : all_formats()) add(all, f.name, f.source);
  return all;
}

Candidates format_words(const Place& at) {
  Candidates all = plain_format_words(at);
  for (Candidate& c : block_format_words(at)) all.push_back(std::move(c));
  return all;
}

Candidates model_words(const Place&) {
  Candidates all;
  for (const narrow::DotModel& m : narrow::dot_models()) add(all, m.name);
  return all;
}

Candidates recipe_words(const Place&) {
  Candidates all;
  for (const narrow::train::RecipeRow& row : narrow::train::recipe_table()) add(all, row.name, row.what);
  return all;
}

Candidates scaler_words(const Place&) {
  Candidates all;
  for (const narrow::ScalerRow& row : narrow::scaler_table()) add(all, row.name, row.what);
  return all;
}

Candidates layout_words(const Place&) {
  Candidates all;
  for (const narrow::Layout* layout : narrow::layouts())
    if (layout->headers != nullptr) add(all, layout->name, layout->what);
  return all;
}

Candidates experiment_words(const Place&) {
  Candidates all;
  for (const analysis::Experiment& e : analysis::experiments()) add(all, e.name, e.question);
  return all;
}

// KEY=VALUE of an experiment, or of all of them.
Candidates setting_words(const Place& at) {
  Candidates all;
  std::set<std::string> seen;
  for (const analysis::Experiment& e : analysis::experiments()) {
    if (!at.values.empty() && at.values.front().find('=') == std::string::npos && at.values.front() != e.name) continue;
    for (const analysis::Parameter& p : e.parameters) {
      if (!seen.insert(p.name).second) continue;
      const std::string head = p.name + "=";
      if (!at.text.starts_with(head)) {
        add(all, head, p.help);
        continue;
      }
      for (const std::string& choice : p.choices) add(all, head + choice);
      if (p.kind == analysis::ParameterKind::folder)
        for (const std::string& folder : analysis::recorded_folders())
          add(all, head + std::filesystem::path(folder).filename().string());
    }
  }
  return all;
}

Candidates run_words(const Place& at) { return at.values.empty() ? experiment_words(at) : setting_words(at); }

// A shell hands words over as they were written.
std::string at_home(const std::string& word) {
  const char* home = std::getenv("HOME");
  return word.starts_with("~/") && home != nullptr ? home + word.substr(1) : word;
}

// What a POSIX regular expression would not take for itself; a dot means one as well.
std::string as_pattern(const std::string& name) {
  std::string out;
  for (const char c : name) {
    if (std::string_view("^[$()|*+?{\\").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// Throws Error where nobody can tell.
std::filesystem::file_type type_of(const std::string& word) {
  std::error_code unknown;
  const std::filesystem::file_status status = std::filesystem::status(word, unknown);
  if (status.type() == std::filesystem::file_type::none)
    throw narrow::Error("complete: a word of the line cannot be looked at: " + unknown.message());
  return status.type();
}

// Throws Error where there is a file and it cannot be read: shells show nothing of it, and a person who asks is told.
// A pipe is not touched: who presses Tab would wait for it, and take from it.
Candidates tensors_of(const std::string& file, const std::string& head, bool pattern) {
  Candidates all;
  if (type_of(file) != std::filesystem::file_type::regular) return all;
  for (const narrow::Tensor& t : open_chosen(file, {}, false).file.tensors)
    add(all, head + (pattern ? as_pattern(t.name) : t.name));
  return all;
}

// Of the first step, which has the names of all: a run may be long.
void read_series(const std::string& folder, std::set<std::string>& names) {
  struct Enough {};
  constexpr std::size_t most = 10'000;
  std::optional<std::int64_t> first;
  try {
    narrow::WatchedRun(folder).for_each_tensor([&](const narrow::WatchedTensor& t) {
      if (t.step != first.value_or(t.step) || names.size() >= most) throw Enough{};
      first = t.step;
      names.insert(as_pattern(t.series()));
    });
  } catch (const Enough&) {
  }
}

Candidates tensor_words(const Place& at) {
  std::set<std::string> names;  // dumps of several steps hold the same
  for (const std::string& word : at.values) {
    if (type_of(word) == std::filesystem::file_type::not_found) continue;
    if (narrow::is_watched_run(word)) read_series(word, names);
    else
      for (const std::string& file : expand_folders({word}))
        for (const Candidate& c : tensors_of(file, "", true)) names.insert(c.word);
  }
  Candidates all;
  for (const std::string& name : names) add(all, name);
  return all;
}

// "FILE:" and the tensors in it.
Candidates file_words(const Place& at) {
  const std::size_t colon = at.text.rfind(':');
  return colon == std::string::npos
             ? Candidates{}
             : tensors_of(at_home(at.text.substr(0, colon)), at.text.substr(0, colon + 1), false);
}

// "what is learned: digits, lm or fashion (default digits)" names them, if all between commas are single words.
Candidates words_of_help(const Place& at) {
  std::string text = at.argument.help;
  for (std::size_t open; (open = text.find(" (")) != std::string::npos;) {
    const std::size_t close = std::min(text.find(')', open), text.size() - 1);
    text.erase(open, close - open + 1);
  }
  text = text.substr(0, text.find(';'));
  if (const std::size_t colon = text.rfind(": "); colon != std::string::npos) text.erase(0, colon + 2);
  for (const std::string_view joint : {", or ", " or ", ", ", ","})
    for (std::size_t k; (k = text.find(joint)) != std::string::npos;) text.replace(k, joint.size(), "\n");
  Candidates all;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string word = text.substr(begin, end - begin);
    for (std::size_t blank; (blank = word.rfind(' ')) + 1 < word.size() && blank != std::string::npos &&
                            word.find_first_of("abcdefghijklmnopqrstuvwxyz", blank) == std::string::npos;)
      word.erase(blank);  // "plan M N K"
    begin = end + 1;
    if (word == "...") return {};  // those were examples
    if (word.empty() || word.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-.") != std::string::npos)
      return {};
    add(all, word);
  }
  return all.size() < 2 ? Candidates{} : all;
}

Candidates job_words(const Place& at) { return at.values.empty() ? words_of_help(at) : Candidates{}; }

// Which words a value has: the first row that fits. An empty entry fits all.
struct Row {
  std::string_view command, flag, value_name;
  Candidates (*words)(const Place&);
  bool is_list = false;  // by comma
  bool files = false;
};
constexpr Row rows[] = {
    {"lint", "--format", "", words_of_help},
    {"", "--tensors", "", tensor_words},
    {"lint", "--ignore", "", no_words},
    {"formats", "NAME", "", plain_format_words},
    {"compare", "", "FORMAT", plain_format_words},
    {"memory", "", "FORMAT", plain_format_words},
    {"dequantize", "--to", "", words_of_help},
    {"quantize", "--to", "", block_format_words},
    {"gpu", "JOB", "", job_words, false, true},
    {"show", "--formats", "", plain_format_words, true},
    {"show", "", "FORMAT", plain_format_words},
    {"", "--formats", "", format_words, true},
    {"", "", "FORMAT", format_words},
    {"", "", "F", plain_format_words},
    {"models", "NAME", "", model_words},
    {"dot", "--model", "", model_words},
    {"gemm", "--model", "", model_words},
    {"op", "--model", "", model_words},
    {"validate", "--model", "", model_words},
    {"", "--recipe", "", recipe_words, true, true},
    {"", "--print-recipe", "", recipe_words},
    {"", "--policy", "", scaler_words, true},
    {"", "--recorded", "", scaler_words},
    {"", "--loss-scaler", "", scaler_words},
    {"", "--layout", "", layout_words},
    {"run", "NAME", "", run_words, false, true},
    {"list", "NAME", "", experiment_words},
    {"report", "KEY=VALUE", "", setting_words, false, true},
    {"report", "--only", "", experiment_words, true},
    {"manual", "COMMAND", "", command_words},
    {"bench", "--kernel", "", words_of_help, true},
    {"", "", "FOLDER", file_words, false, true},
    {"show", "VALUE", "", no_words},
    {"", "FILE", "", file_words, false, true},
    {"", "MODEL", "", file_words, false, true},
    {"", "", "FILE", file_words, false, true},
    {"", "", "X|FILE", file_words, false, true},
    {"", "", "FILE.csv", file_words, false, true},
    {"", "", "DIR", file_words, false, true},
    {"", "", "PATH", file_words, false, true},
    {"", "", "OUT", file_words, false, true},
    {"", "", "PROGRAM", file_words, false, true},
    {"", "", "", words_of_help},
};

// Whatever a name of a file brings along stays there: a word with control characters is not offered.
bool is_plain(const std::string& word) { return narrow::visible(word) == word; }

Completion keep(Candidates all, const std::string& text, const std::string& head, bool files) {
  Completion out{.candidates = {}, .files = files};
  for (Candidate& c : all)
    if (c.word.starts_with(text) && is_plain(c.word))
      out.candidates.push_back({head + c.word, narrow::visible(c.help)});
  return out;
}

Completion values_of(Place at, const std::string& head) {
  for (const Row& row : rows) {
    const std::vector<std::string> names = at.argument.names();
    if (!row.command.empty() && row.command != at.definition.command->name) continue;
    if (!row.flag.empty() && std::ranges::count(names, row.flag) == 0) continue;
    if (!row.value_name.empty() && row.value_name != at.argument.value_name) continue;
    std::string before;
    if (row.is_list) {
      before = at.text.substr(0, at.text.rfind(',') + 1);
      at.text.erase(0, before.size());
    }
    return keep(row.words(at), at.text, head + before, row.files && before.empty());
  }
  return {};
}

}  // namespace

Completion complete_words(const std::vector<std::string>& words) {
  if (words.size() < 2) return {};
  const std::string& last = words.back();
  const std::vector<Definition> all = definitions();
  if (words.size() == 2) {
    Candidates commands = command_words(all);
    if (last.starts_with('-'))
      add(commands, "--help", "this help"), add(commands, "--version", "the version of narrow");
    return keep(std::move(commands), last, "", false);
  }
  const auto found = std::ranges::find_if(all, [&](const Definition& d) { return words[1] == d.command->name; });
  if (found == all.end()) return {};
  std::vector<std::string> values;
  const Argument* open = nullptr;  // the option whose value comes next
  bool only_values = false;        // after --
  std::set<const Argument*> given;
  for (std::size_t i = 2; i + 1 < words.size(); ++i) {
    const Argument* option =
        only_values || open != nullptr ? nullptr : found->find(words[i].substr(0, words[i].find('=')));
    if (open != nullptr) open = nullptr;
    else if (option != nullptr) {
      given.insert(option);
      if (option->option != nullptr && words[i].find('=') == std::string::npos) open = option;
    } else if (words[i] == "--") only_values = true;
    else values.push_back(at_home(words[i]));
  }
  if (open != nullptr) return values_of({*found, *open, values, last}, "");
  if (const std::size_t equals = last.find('=');
      !only_values && last.starts_with("--") && equals != std::string::npos) {
    const Argument* option = found->find(last.substr(0, equals));
    return option == nullptr
               ? Completion{}
               : values_of({*found, *option, values, last.substr(equals + 1)}, last.substr(0, equals + 1));
  }
  if (last.starts_with('-') && !only_values) {
    Candidates flags;
    for (const Argument& a : found->arguments)
      if (a.values == nullptr && !given.contains(&a)) add(flags, a.names().back(), a.help);
    add(flags, "--help", "this help");
    return keep(std::move(flags), last, "", false);
  }
  if (found->positional() == nullptr) return {};
  return values_of({*found, *found->positional(), values, last}, "");
}

}  // namespace app
