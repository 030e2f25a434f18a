// The experiments that registered themselves, and how one is run.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <stdexcept>
#include <utility>

#include "analysis/framework/experiment.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"

namespace analysis {
namespace {

constinit const Register* last = nullptr;

}  // namespace

Register::Register(Experiment (*make_it)()) noexcept : make(make_it), before(std::exchange(last, this)) {}

const std::vector<Experiment>& experiments() {
  static const std::vector<Experiment> all = [] {
    std::vector<Experiment> list;
    for (const Register* r = last; r != nullptr; r = r->before) list.push_back(r->make());
    std::sort(list.begin(), list.end(), [](const Experiment& a, const Experiment& b) {
      return a.place != b.place ? a.place < b.place : std::string_view(a.name) < b.name;
    });
    return list;
  }();
  return all;
}

const Experiment& require_experiment(std::string_view name) {
  std::vector<std::string_view> names;
  std::string list;
  for (const Experiment& e : experiments()) {
    if (name == e.name) return e;
    names.emplace_back(e.name);
    list += (list.empty() ? "" : ", ") + std::string(e.name);
  }
  throw narrow::Error("no experiment is called " + narrow::quote(name) + "; " +
                      narrow::hint(name, names) + "experiments: " + list);
}

Basis basis_of(const narrow::DotModel& model) {
  if (model.evidence == narrow::Evidence::by_definition) return {model.evidence, "sums in software"};
  std::string name(narrow::generation_name(model.generation));
  name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return {model.evidence, name + "'s tensor cores"};
}

std::string evidence_text(const std::vector<Basis>& parts) {
  std::string text;
  for (int e = 0; e < narrow::evidence_count; ++e) {
    std::vector<std::string> things;
    for (const Basis& part : parts)
      if (part.evidence == static_cast<narrow::Evidence>(e) && std::ranges::find(things, part.what) == things.end())
        things.push_back(part.what);
    for (const std::string& thing : things)
      text += (&thing != &things.front() ? ", "
               : text.empty()            ? std::string(narrow::evidence_name(static_cast<narrow::Evidence>(e))) + " ("
                              : "), " + std::string(narrow::evidence_name(static_cast<narrow::Evidence>(e))) + " (") +
              thing;
  }
  return text.empty() ? text : text + ")";
}

Outcome run_experiment(const Experiment& experiment, const Parameters& parameters, Progress& progress) {
  Outcome outcome = experiment.run(parameters, progress);
  const std::string who = experiment.name;
  if (outcome.finding.empty()) throw std::logic_error(who + " has no finding");
  if (outcome.data.text.empty()) throw std::logic_error(who + " does not say whose data it shows");
  if (outcome.tables.empty()) throw std::logic_error(who + " has no table");
  if (!outcome.data.basis.what.empty()) outcome.evidence.insert(outcome.evidence.begin(), outcome.data.basis);
  outcome.evidence.push_back({narrow::Evidence::by_definition, "formats and casts"});
  const std::string evidence = "Evidence: " + evidence_text(outcome.evidence) + ".";
  const auto ended = [](const std::string& text) { return text.empty() || text.ends_with('.') ? text : text + "."; };
  std::set<std::string> names;  // of files
  for (narrow::report::Table& table : outcome.tables) {
    narrow::report::check(table);
    for (auto& row : table.rows)  // what is undefined is no number: a dash, empty in CSV, null in JSON
      for (narrow::report::Cell& cell : row)
        if (const double* x = std::get_if<double>(&cell); x != nullptr && std::isnan(*x)) cell = {};
    if (!names.insert(table.name).second) throw std::logic_error(who + " has two tables called " + table.name);
    table.parameters = parameters.texts();
    table.note = ended(table.note) + (table.note.empty() ? "" : " ") + evidence;
  }
  names.clear();
  for (narrow::report::Plot& plot : outcome.plots) {
    plot.subtitle = ended(plot.subtitle) + (plot.subtitle.empty() ? "" : " ") + evidence;
    narrow::report::check(plot);
    if (!names.insert(plot.name).second) throw std::logic_error(who + " has two plots called " + plot.name);
  }
  return outcome;
}

}  // namespace analysis
