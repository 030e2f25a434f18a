// narrow run: one experiment; its numbers, its pictures and its finding as files in a folder.
#include <filesystem>
#include <memory>

#include "analysis/framework/training_runs.hpp"
#include "cli/crew.hpp"
#include "cli/terminal.hpp"
#include "cli/write_file.hpp"
#include "experiments/experiment_run.hpp"
#include "narrow/report/table_writers.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/train/run/result_members.hpp"

namespace app {
namespace of_run {

struct Options {
  std::vector<std::string> words;
  std::optional<std::string> folder, backend;
  EffortOptions effort;
  bool show = false, json = false;
};

// Pictures are drawn before the first file is written. A picture that cannot be drawn is said once, and no reason to
// keep the numbers back.
std::vector<ReadyFile> pictures(const analysis::Experiment& experiment, const analysis::Outcome& outcome,
                                const std::string& folder, const narrow::plot::DrawOptions& draw) {
  std::vector<ReadyFile> files;
  const std::pair<narrow::plot::PictureKind, const char*> kinds[] = {{narrow::plot::PictureKind::png, ".png"},
                                                               {narrow::plot::PictureKind::svg, ".svg"}};
  for (const auto& [kind, ending] : kinds) {
    if (const std::string fault = narrow::plot::why_not(kind, draw); !fault.empty()) {
      complain(std::string("no ") + ending + " pictures: " + fault + "; the numbers are all there");
      continue;
    }
    for (const narrow::report::Plot& plot : outcome.plots)
      files.push_back({folder + "/" + file_stem(experiment, plot.name) + ending, narrow::plot::draw(plot, kind, draw)});
  }
  return files;
}

void show_tables(const analysis::Outcome& outcome) {
  for (const narrow::report::Table& table : outcome.tables) {
    print("\n" + paint(narrow::visible(table.title), Colour::bold, use_colour(1)) + "\n" + narrow::report::to_text(table));
    if (!table.note.empty()) print(narrow::visible(table.note) + "\n");
  }
}

// The training runs of an experiment, each made by one rank; the rest of it every rank computes for itself.
std::vector<narrow::train::RunResult> share_runs(const std::vector<narrow::train::RunRequest>& requests) {
  std::vector<narrow::cluster::Item> items;
  for (const narrow::train::RunRequest& r : requests)
    items.push_back({r.steps.value_or(narrow::train::settings_of(r.task).steps),
                     r.recipe.name + ", seed " + std::to_string(r.seed)});
  std::vector<narrow::train::RunResult> results;
  for (const narrow::Bytes& bytes :
       crew()->share(items, [&](std::size_t i) { return narrow::to_bytes(narrow::train::run_training(requests[i])); }))
    results.push_back(narrow::from_bytes<narrow::train::RunResult>(bytes));
  return results;
}

int run(const Options& options) {
  if (options.words.empty())
    throw narrow::Error("run: no experiment; for example: narrow run format_choice -o out (narrow list names them)");
  const analysis::Experiment& experiment = analysis::require_experiment(options.words[0]);
  const std::vector<std::string> settings(options.words.begin() + 1, options.words.end());
  const analysis::Parameters parameters(experiment, settings, options.effort.effort());
  narrow::plot::DrawOptions draw;
  if (options.backend) draw.backend = blame("--plot-backend", [&] { return narrow::plot::parse_backend(*options.backend); });
  if (options.folder) make_folder(*options.folder);

  if (crew() != nullptr) analysis::make_runs_by(share_runs);
  const analysis::Outcome outcome = run_with_bar(experiment, parameters, experiment.name);
  if (options.folder && speaks()) {
    std::vector<ReadyFile> files = csv_files(experiment, outcome, parameters.command(), *options.folder);
    std::vector<std::string> picture_files;
    for (ReadyFile& file : pictures(experiment, outcome, *options.folder, draw)) {
      if (file.path.ends_with(".svg")) picture_files.push_back(std::filesystem::path(file.path).filename().string());
      files.push_back(std::move(file));
    }
    const std::string stem = *options.folder + "/" + experiment.name;
    const narrow::report::PageSection section = page_section(experiment, outcome, parameters.command(), false);
    files.push_back({stem + ".md", narrow::report::to_markdown(section, picture_files)});
    files.push_back({stem + ".json", json_text(outcome_json(experiment, parameters, outcome))});
    for (const ReadyFile& file : files) write_file(file.path, file.content);
  }
  if (options.json) {
    print(json_text(outcome_json(experiment, parameters, outcome)));
    return 0;
  }
  print(paint(narrow::visible(outcome.finding), Colour::bold, use_colour(1)) + "\n");
  for (const narrow::report::Answer& a : outcome.answers)
    print(paint(narrow::visible(a.question), Colour::bold, use_colour(1)) + " " + narrow::visible(a.text) + "\n");
  print("Data: " + narrow::visible(outcome.data.text) + ".\nEvidence: " + analysis::evidence_text(outcome.evidence) +
        ".\n");
  for (const std::string& note : outcome.notes) print(narrow::visible(note) + "\n");
  if (options.show || !options.folder) show_tables(outcome);
  if (options.folder) print("\nwritten to " + narrow::visible(*options.folder) + "\n");
  return 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.values("NAME", options->words, "the experiment, then its parameters as KEY=VALUE (narrow list NAME)");
  arguments.option("-o,--output", options->folder, "DIR", "a folder for CSV, PNG, SVG, Markdown and JSON");
  arguments.flag("--show", options->show, "print the tables as well (they are printed when there is no -o)");
  options->effort.declare(arguments);
  arguments.option("--plot-backend", options->backend, "B", "auto, gnuplot, matplot, or own (SVG only)");
  arguments.flag("--json", options->json, "print JSON");
  return [options] { return run(*options); };
}

}  // namespace of_run

const Command run_command{
    "run", "one experiment: tables, pictures and what was found",
    "narrow run gradient_underflow gradients=grads.safetensors -o out", of_run::declare,
    "An experiment answers one question from recordings in data/, or from files that its parameters name: a "
    "tensor file, a folder that narrow.torch.watch wrote (run=DIR), a recorded run (run=fp16-amp). The finding "
    "is computed from the numbers; --fast is less of everything."};

}  // namespace app
