// narrow list: the experiments, what each asks, and what can be set.
#include <memory>

#include "analysis/framework/experiment.hpp"
#include "cli/command.hpp"
#include "cli/json_value.hpp"
#include "cli/terminal.hpp"

namespace app {
namespace of_list {

using analysis::Parameter;
using analysis::ParameterKind;

struct Options {
  std::vector<std::string> names;
  bool json = false;
};

const char* kind_text(ParameterKind kind) {
  switch (kind) {
    case ParameterKind::integer: return "integer";
    case ParameterKind::real: return "real";
    case ParameterKind::text: return "text";
    case ParameterKind::choice: return "choice";
    case ParameterKind::file: return "file";
    case ParameterKind::folder: return "folder";
  }
  return "";
}

bool is_number(const Parameter& p) { return p.kind == ParameterKind::integer || p.kind == ParameterKind::real; }

Json number_of(const std::string& text) { return Json::parse(text); }

Json parameter_json(const Parameter& p) {
  const auto value = [&](int effort) { return is_number(p) ? number_of(p.initial[effort]) : Json(p.initial[effort]); };
  Json json{
      {"name", p.name}, {"kind", kind_text(p.kind)}, {"default", value(1)}, {"fast", value(0)}, {"full", value(2)}};
  if (is_number(p)) {
    json["low"] = p.low;
    json["high"] = p.high;
  }
  if (p.kind == ParameterKind::choice) json["choices"] = p.choices;
  json["help"] = p.help;
  return json;
}

Json to_json(const std::vector<const analysis::Experiment*>& chosen) {
  Json list = Json::array();
  for (const analysis::Experiment* e : chosen) {
    Json parameters = Json::array();
    for (const Parameter& p : e->parameters) parameters.push_back(parameter_json(p));
    list.push_back({{"name", e->name}, {"question", e->question}, {"parameters", std::move(parameters)}});
  }
  return list;
}

// "samples=100000  values of each kind; 1 to 1e8; --fast 10000".
std::string parameter_text(const Parameter& p) {
  std::string text = p.help;
  if (is_number(p)) text += "; " + narrow::report::significant_text(p.low, 6) + " to " + narrow::report::significant_text(p.high, 6);
  if (p.kind == ParameterKind::choice) {
    std::string list;
    for (const std::string& choice : p.choices) list += (list.empty() ? "" : "|") + choice;
    text += "; " + list;
  }
  if (p.initial[0] != p.initial[1]) text += "; --fast " + p.initial[0];
  if (p.initial[2] != p.initial[1]) text += "; --full " + p.initial[2];
  return text;
}

int run(const Options& options) {
  std::vector<const analysis::Experiment*> chosen;
  for (const std::string& name : options.names) chosen.push_back(&analysis::require_experiment(name));
  if (options.names.empty())
    for (const analysis::Experiment& e : analysis::experiments()) chosen.push_back(&e);
  if (options.json) {
    print(json_text(to_json(chosen)));
    return 0;
  }
  const bool colour = use_colour(1);
  for (const analysis::Experiment* e : chosen) {
    print(paint(e->name, Colour::bold, colour) + "\n  " + e->question + "\n");
    for (const Parameter& p : e->parameters) {
      const std::string setting = p.name + "=" +
                                  (p.kind == ParameterKind::file     ? "FILE"
                                   : p.kind == ParameterKind::folder ? "DIR"
                                                                     : p.initial[1]);
      const std::string space(setting.size() < 24 ? 24 - setting.size() : 1, ' ');
      print("    " + setting + space + paint(parameter_text(p), Colour::dim, colour) + "\n");
    }
  }
  if (options.names.empty())
    print("\nnarrow run NAME [KEY=VALUE..] -o DIR runs one; narrow report -o DIR runs all and makes a page.\n");
  return 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.values("NAME", options->names, "experiments (default: all)");
  arguments.flag("--json", options->json, "print JSON");
  return [options] { return run(*options); };
}

}  // namespace of_list

const Command list_command{
    "list", "the experiments, their questions and their parameters", "narrow list", of_list::declare,
    "A parameter is given as KEY=VALUE to narrow run and narrow report; its range, its choices and what "
    "--fast and --full make of it are shown."};

}  // namespace app
