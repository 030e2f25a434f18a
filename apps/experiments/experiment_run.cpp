#include "experiments/experiment_run.hpp"

#include "cli/progress.hpp"
#include "narrow/base/version.hpp"
#include "narrow/report/table_writers.hpp"

namespace app {
namespace {

// From parts of the whole to the counts of a bar.
class BarProgress : public analysis::Progress {
 public:
  explicit BarProgress(const std::string& label) : bar_(label, whole) {}
  void at(double part, std::string_view what) override {
    const auto reached = static_cast<std::uint64_t>(std::min(1.0, std::max(0.0, part)) * whole);
    if (!what.empty()) bar_.note(std::string(what.substr(0, 30)));
    bar_.add(reached > done_ ? reached - done_ : 0);
    done_ = std::max(done_, reached);
  }

 private:
  static constexpr std::uint64_t whole = 1000;
  app::Progress bar_;
  std::uint64_t done_ = 0;
};

}  // namespace

void EffortOptions::declare(Arguments& arguments) {
  arguments.flag("--fast", fast, "fewer samples: seconds an experiment");
  arguments.flag("--full", full, "more samples: as long as it takes");
}

analysis::Effort EffortOptions::effort() const {
  if (fast && full) throw narrow::Error("--fast and --full exclude each other; give one of them");
  return fast ? analysis::Effort::fast : full ? analysis::Effort::full : analysis::Effort::normal;
}

analysis::Outcome run_with_bar(const analysis::Experiment& experiment, const analysis::Parameters& parameters,
                               const std::string& label) {
  BarProgress progress(label);
  return analysis::run_experiment(experiment, parameters, progress);
}

std::string file_stem(const analysis::Experiment& experiment, const std::string& part) {
  return part == experiment.name ? part : std::string(experiment.name) + "_" + part;
}

std::vector<ReadyFile> csv_files(const analysis::Experiment& experiment, const analysis::Outcome& outcome,
                                 const std::string& command, const std::string& folder) {
  std::vector<ReadyFile> files;
  for (const narrow::report::Table& table : outcome.tables)
    files.push_back({folder + "/" + file_stem(experiment, table.name) + ".csv", narrow::report::to_csv(table, command)});
  return files;
}

narrow::report::PageSection page_section(const analysis::Experiment& experiment, const analysis::Outcome& outcome,
                                 const std::string& command, bool with_pictures) {
  narrow::report::PageSection section;
  section.name = experiment.name;
  section.question = experiment.question;
  section.finding = outcome.finding;
  section.data = outcome.data.text;
  section.evidence = analysis::evidence_text(outcome.evidence);
  section.answers = outcome.answers;
  section.notes = outcome.notes;
  section.command = command;
  for (const narrow::report::Plot& plot : outcome.plots)
    section.pictures.push_back({plot.title, plot.subtitle, with_pictures ? narrow::plot::draw_inline(plot) : ""});
  for (const narrow::report::Table& table : outcome.tables)
    section.tables.push_back({table, file_stem(experiment, table.name) + ".csv"});
  return section;
}

Json outcome_json(const analysis::Experiment& experiment, const analysis::Parameters& parameters,
                  const analysis::Outcome& outcome) {
  Json json = Json::object();
  json["name"] = experiment.name;
  json["question"] = experiment.question;
  json["finding"] = outcome.finding;
  json["data"] = outcome.data.text;
  json["evidence"] = Json::array();
  for (const analysis::Basis& part : outcome.evidence)
    json["evidence"].push_back({{"class", narrow::evidence_name(part.evidence)}, {"what", part.what}});
  for (const narrow::report::Answer& a : outcome.answers)
    json["answers"].push_back({{"question", a.question}, {"answer", a.text}});
  json["notes"] = outcome.notes;
  json["version"] = narrow::version;
  json["command"] = parameters.command();
  for (const auto& [name, value] : parameters.texts()) json["parameters"][name] = value;
  if (!json.contains("parameters")) json["parameters"] = Json::object();
  json["tables"] = Json::array();
  for (const narrow::report::Table& table : outcome.tables) json["tables"].push_back(Json::parse(narrow::report::to_json(table)));
  return json;
}

}  // namespace app
