// narrow report: all experiments as one page that a browser opens from the disk.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>

#include "cli/crew.hpp"
#include "cli/terminal.hpp"
#include "cli/write_file.hpp"
#include "experiments/experiment_run.hpp"
#include "narrow/base/version.hpp"
#include "narrow/tensor/crc32.hpp"
#include "narrow/tensor/mapped_file.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "narrow/tensor/watched_run.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"

namespace narrow::report {

template <class Archive>
void members(Archive& archive, Column& c) {
  archive(c.name, c.unit, c.kind, c.style, c.digits);
}
template <class Archive>
void members(Archive& archive, Table& t) {
  archive(t.name, t.title, t.columns, t.rows, t.note, t.parameters);
}
template <class Archive>
void members(Archive& archive, PagePicture& p) {
  archive(p.title, p.subtitle, p.svg);
}
template <class Archive>
void members(Archive& archive, PageTable& t) {
  archive(t.table, t.file);
}
template <class Archive>
void members(Archive& archive, Answer& a) {
  archive(a.question, a.text);
}
template <class Archive>
void members(Archive& archive, PageSection& s) {
  archive(s.name, s.question, s.finding, s.data, s.evidence, s.answers, s.failure, s.notes, s.pictures, s.tables, s.command);
}

}  // namespace narrow::report

namespace app {

template <class Archive>
void members(Archive& archive, ReadyFile& f) {
  archive(f.path, f.content);
}

namespace of_report {

using analysis::Experiment;

struct Options {
  std::vector<std::string> settings;
  std::optional<std::string> folder, only;
  EffortOptions effort;
  bool json = false, resume = false;
};

std::vector<const Experiment*> chosen(const Options& options) {
  std::vector<const Experiment*> list;
  if (!options.only) {
    for (const Experiment& e : analysis::experiments()) list.push_back(&e);
    return list;
  }
  std::string_view rest = *options.only;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const Experiment* e = blame("--only", [&] { return &analysis::require_experiment(rest.substr(0, end)); });
    if (std::find(list.begin(), list.end(), e) == list.end()) list.push_back(e);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (list.empty()) throw narrow::Error("--only: no experiment is named; see narrow list");
  std::sort(list.begin(), list.end());  // they lie in the order of the page
  return list;
}

// A setting goes to every experiment that has its parameter. A name that none of them has, a value out of range and a
// file that is none are refused before any work.
std::vector<analysis::Parameters> parameters_of(const std::vector<const Experiment*>& list, const Options& options) {
  std::set<std::string> names;
  for (const Experiment* e : list)
    for (const analysis::Parameter& p : e->parameters) names.insert(p.name);
  const auto name_of = [](const std::string& setting) { return setting.substr(0, setting.find('=')); };
  for (const std::string& setting : options.settings) {
    if (names.contains(name_of(setting))) continue;
    std::string known;
    for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
    throw narrow::Error("report: no experiment of this report has a parameter " + narrow::quote(name_of(setting)) +
                        "; " + narrow::hint(name_of(setting), {names.begin(), names.end()}) + "parameters: " + known);
  }
  std::set<std::string> files, runs;
  std::vector<analysis::Parameters> all;
  for (const Experiment* e : list) {
    std::vector<std::string> own;
    for (const analysis::Parameter& p : e->parameters)
      for (const std::string& setting : options.settings)
        if (name_of(setting) == p.name) own.push_back(setting);
    all.push_back(blame(e->name, [&] { return analysis::Parameters(*e, own, options.effort.effort()); }));
    for (const analysis::Parameter& p : e->parameters)
      if (p.kind == analysis::ParameterKind::file && !all.back().text(p.name).empty())
        files.insert(all.back().text(p.name));
      else if (p.kind == analysis::ParameterKind::folder && !all.back().text(p.name).empty())
        runs.insert(all.back().text(p.name));
  }
  if (files.contains("-"))
    throw narrow::Error("report: standard input can be read once, and a report may need it more often; give a file");
  for (const std::string& file : files) (void)narrow::open_tensor_file(narrow::split_file_and_name(file).first);
  for (const std::string& run : runs) narrow::WatchedRun(run).for_each_tensor([](narrow::WatchedTensor&) {});
  return all;
}

struct Answer {
  narrow::report::PageSection section;
  std::vector<ReadyFile> files;
  double seconds = 0;
};
template <class Archive>
void members(Archive& archive, Answer& a) {
  archive(a.section, a.files, a.seconds);
}

// What is finished waits in a file until the page is whole.
std::string waiting_file(const std::string& folder, const Experiment& e) { return folder + "/" + e.name + ".waiting"; }

std::string state_of(const std::filesystem::path& path) {
  std::error_code error;
  const auto size = std::filesystem::is_regular_file(path, error) ? std::filesystem::file_size(path, error) : 0;
  return " " + path.string() + " " + std::to_string(size) + " " +
         std::to_string(std::filesystem::last_write_time(path, error).time_since_epoch().count());
}

// The request, the program, and the files that are read, as they are now.
std::string key_of(const Experiment& e, const analysis::Parameters& parameters) {
  std::string key = parameters.command() + state_of("/proc/self/exe");
  std::error_code error;
  for (const analysis::Parameter& p : e.parameters) {
    if (p.kind != analysis::ParameterKind::file && p.kind != analysis::ParameterKind::folder) continue;
    const std::string path = narrow::split_file_and_name(parameters.text(p.name)).first;
    if (path.empty()) continue;
    key += state_of(path);
    for (std::filesystem::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
      key += state_of(at->path());
  }
  return key;
}

// A checksum before it: what a full disk or a crash left of it is done again.
narrow::Bytes sealed(narrow::Bytes content) {
  const narrow::Bytes seal = narrow::to_bytes(narrow::crc32_of(0, content));
  content.insert(content.begin(), seal.begin(), seal.end());
  return content;
}

std::optional<Answer> finished_answer(const std::string& file, const std::string& wanted) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return {};
  try {
    const auto mapped = narrow::MappedFile::open(file);
    constexpr std::size_t seal = sizeof(std::uint32_t);
    if (mapped->bytes().size() < seal) return {};
    const std::span<const std::byte> content = mapped->bytes().subspan(seal);
    if (narrow::from_bytes<std::uint32_t>(mapped->bytes().first(seal)) != narrow::crc32_of(0, content)) return {};
    const auto [key, answer] = narrow::from_bytes<std::pair<std::string, Answer>>(content);
    if (key == wanted) return answer;
  } catch (const narrow::Error&) {  // not one of ours, or of another version
  }
  return {};
}

// Whatever an experiment throws is its own failure: the others still come.
Answer answer_of(const Experiment& experiment, const analysis::Parameters& parameters, const std::string& label) {
  Answer answer;
  const auto start = std::chrono::steady_clock::now();
  try {
    const analysis::Outcome outcome = run_with_bar(experiment, parameters, label);
    answer.section = page_section(experiment, outcome, parameters.command(), true);
    answer.files = csv_files(experiment, outcome, parameters.command(), "");
    for (ReadyFile& file : answer.files) file.path = std::filesystem::path(file.path).filename().string();
  } catch (const std::bad_alloc&) {
    throw;  // the page would need memory, too
  } catch (const std::exception& error) {
    answer.section = {};
    answer.section.name = experiment.name;
    answer.section.question = experiment.question;
    answer.section.command = parameters.command();
    answer.section.failure = error.what();
    answer.files.clear();
  }
  answer.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return answer;
}

narrow::report::Page page_of(const Options& options) {
  const analysis::Effort effort = options.effort.effort();
  const char* effort_text = effort == analysis::Effort::fast   ? " --fast"
                            : effort == analysis::Effort::full ? " --full"
                                                               : "";
  std::string settings;
  for (const std::string& setting : options.settings) settings += " " + analysis::shell_word(setting);
  narrow::report::Page page;
  page.title = "What number formats do to training";
  page.introduction =
      "Each line is the answer to one question, measured with bit-exact models of the formats and of the hardware; a "
      "click leads to the picture, the numbers and the command that makes them again. Under each line stands whose "
      "data it is about.";
  page.made_by = std::string("Made by narrow ") + narrow::version + ": narrow report" + settings + effort_text +
                 (options.only ? " --only " + *options.only : "") + ". The same command gives the same numbers.";
  return page;
}

// One line, out at once: whoever reads a pipe sees how far it is.
void print_line(const Answer& answer) {
  const bool colour = use_colour(1);
  const narrow::report::PageSection& s = answer.section;
  print(paint(s.name, Colour::bold, colour) + "  " +
        paint(narrow::report::fixed_text(answer.seconds, 1) + " s", Colour::dim, colour) + "  " +
        (s.failure.empty() ? narrow::visible(s.finding)
                           : paint(narrow::visible("failed: " + s.failure), Colour::red, colour)) +
        "\n");
  flush_output();
}

int run(const Options& options) {
  if (!options.folder) throw narrow::Error("report: no folder; for example: narrow report -o report");
  const std::vector<const Experiment*> list = chosen(options);
  const std::vector<analysis::Parameters> parameters = parameters_of(list, options);
  make_folder(*options.folder);

  narrow::report::Page page = page_of(options);
  std::vector<ReadyFile> files;
  Json summary = Json::array();
  std::size_t failed = 0;
  const auto answer_to = [&](std::size_t i) {
    const std::string label = std::to_string(i + 1) + "/" + std::to_string(list.size()) + " " + list[i]->name;
    const std::string file = waiting_file(*options.folder, *list[i]);
    const bool keeps = options.resume || crew() != nullptr;
    const std::string key = keeps ? key_of(*list[i], parameters[i]) : "";
    if (options.resume)
      if (std::optional<Answer> known = finished_answer(file, key)) return std::move(*known);
    Answer answer = answer_of(*list[i], parameters[i], label);
    if (!answer.section.failure.empty() || !keeps) return answer;
    const narrow::Bytes bytes = sealed(narrow::to_bytes(std::pair(key, answer)));
    write_file(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    return answer;
  };
  std::vector<narrow::Bytes> shared;
  if (crew() != nullptr) {
    std::vector<narrow::cluster::Item> items;
    for (const Experiment* e : list) items.push_back({1, e->name});
    shared = crew()->share(items, [&](std::size_t i) {
      const OwnWork own;
      return narrow::to_bytes(answer_to(i));
    });
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    Answer answer = crew() != nullptr ? narrow::from_bytes<Answer>(shared[i]) : answer_to(i);
    failed += answer.section.failure.empty() ? 0 : 1;
    if (!options.json) print_line(answer);
    summary.push_back({{"name", answer.section.name},
                       {"finding", answer.section.finding},
                       {"data", answer.section.data},
                       {"failure", answer.section.failure.empty() ? Json() : Json(answer.section.failure)},
                       {"seconds", answer.seconds}});
    for (ReadyFile& file : answer.files) files.push_back({*options.folder + "/" + file.path, std::move(file.content)});
    page.sections.push_back(std::move(answer.section));
  }
  files.push_back({*options.folder + "/index.html", narrow::report::to_html(page)});
  for (const ReadyFile& file : files) write_file(file.path, file.content);
  for (const Experiment* e : list)
    if (std::error_code error; speaks()) std::filesystem::remove(waiting_file(*options.folder, *e), error);
  const std::string path = std::filesystem::absolute(files.back().path).lexically_normal().string();
  if (options.json) print(json_text({{"page", path}, {"failed", failed != 0}, {"experiments", summary}}));
  else print("\nthe page: " + narrow::visible(path) + "\n");
  if (failed == 0) return 0;
  complain("report: " + std::to_string(failed) + " of " + std::to_string(list.size()) +
           " experiments failed; the page says why");
  return 2;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.values("KEY=VALUE", options->settings,
                   "parameters of the experiments, each for all that have it (narrow list): gradients=FILE, run=DIR");
  arguments.option("-o,--output", options->folder, "DIR", "a folder for index.html and the CSV files");
  arguments.option("--only", options->only, "LIST", "these experiments, by comma (default: all)");
  options->effort.declare(arguments);
  arguments.flag("--resume", options->resume,
                 "what is finished is kept in DIR until the page is whole, and not done again after a break");
  arguments.flag("--json", options->json, "print JSON: the page and the findings");
  return [options] { return run(*options); };
}

}  // namespace of_report

const Command report_command{
    "report", "all experiments as one page with pictures, findings first",
    "narrow report gradients=grads.safetensors --only gradient_underflow,format_choice --fast -o page",
    of_report::declare,
    "The page leads with what a practitioner asks first: which recipe, what breaks first, which layers, what "
    "scale. With run=DIR it is about your own run."};

}  // namespace app
