// What an experiment is: a question, parameters, and one function from these to tables, pictures and a finding.
// It parses no arguments, draws nothing and writes no files: the program does that for all of them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "narrow/base/error.hpp"
#include "narrow/dot/model.hpp"
#include "narrow/report/page.hpp"
#include "narrow/report/plot.hpp"
#include "narrow/report/table.hpp"

namespace analysis {

using namespace narrow::report;  // tables and pictures are what an experiment answers with

// fast: seconds on one core, for the demo and the tests. normal: what a person waits for. full: as long as it takes.
enum class Effort : std::uint8_t { fast, normal, full };

enum class ParameterKind : std::uint8_t { integer, real, text, choice, file, folder };

// One parameter as NAME=VALUE on the command line. The initial value may depend on the effort.
struct Parameter {
  std::string name;
  ParameterKind kind = ParameterKind::text;
  std::string initial[3];            // by Effort; an empty file or folder name means: the recordings in data/
  double low = 0, high = 0;          // of numbers, both included
  std::vector<std::string> choices;  // of a choice
  std::string help;                  // what it is, with its unit
};

// Numbers by effort: 1000 is the same for all, {100, 1000, 100000} is fast, normal, full.
struct ByEffort {
  double value[3];
  ByEffort(double same) : value{same, same, same} {}
  ByEffort(double fast, double normal, double full) : value{fast, normal, full} {}
};

Parameter integer_parameter(std::string name, ByEffort initial, double low, double high, std::string help);
Parameter real_parameter(std::string name, ByEffort initial, double low, double high, std::string help);
Parameter choice_parameter(std::string name, std::vector<std::string> choices, std::string help);  // the first is taken
Parameter text_parameter(std::string name, std::string initial, std::string help);
Parameter file_parameter(std::string name, std::string help);  // a tensor file; initially empty
Parameter
run_parameter();  // run=DIR, a folder that narrow.torch.watch wrote, or run=NAME, a recorded one; initially empty

struct Experiment;

std::string shell_word(const std::string& word);  // as a shell reads it back

// The values for one run, each checked against its declaration when it was made. Asking for a parameter that was not
// declared, or as another kind, is a mistake of the experiment: std::logic_error.
class Parameters {
 public:
  // Settings "name=value". Throws narrow::Error: an unknown name (with the closest), a value that is no number, is
  // outside of its range, or is none of the choices.
  Parameters(const Experiment& experiment, const std::vector<std::string>& settings, Effort effort = Effort::normal);

  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  const std::string& text(std::string_view name) const;  // text, choice, file; of a folder its path
  bool is_given(std::string_view name) const;            // by the user

  Effort effort() const { return effort_; }
  template <class T>
  T by_effort(T fast, T normal, T full) const {
    return effort_ == Effort::fast ? fast : effort_ == Effort::full ? full : normal;
  }

  narrow::report::ParameterTexts texts() const;  // all of them with their values
  std::string command() const;           // "narrow run NAME key=value.. [--fast]": what makes the same numbers again

 private:
  struct Value {
    Parameter declared;
    std::string text;
    double number = 0;
    bool given = false;
    std::string path = {};  // of a folder: where it is
  };
  const Value& find(std::string_view name) const;

  std::string experiment_;
  std::vector<Value> values_;
  Effort effort_;
};

// Where an experiment says how far it is; from one thread at a time. The base class listens to nobody.
class Progress {
 public:
  virtual ~Progress() = default;
  virtual void at(double /*part, 0 to 1*/, std::string_view /*what*/ = {}) {}
};

// What part of an answer stands on what: {published, "Blackwell's tensor cores"}.
struct Basis {
  narrow::Evidence evidence;
  std::string what;

  friend bool operator==(const Basis&, const Basis&) = default;
};
Basis basis_of(const narrow::DotModel& model);  // its generation's tensor cores, or software
// "measured (Hopper's tensor cores), published (Blackwell's tensor cores)": strongest first, each thing once.
std::string evidence_text(const std::vector<Basis>& parts);

// Whose numbers an answer is about: "grads.npy", "recorded: a GPT at step 300". Numbers made here and the values of a
// user's file are what they are: by definition. inputs.hpp has one for the recordings.
struct Source {
  Source() = default;
  Source(const char* said) : text(said) {}
  Source(std::string said, Basis stands_on = {narrow::Evidence::by_definition, ""})
      : text(std::move(said)), basis(std::move(stands_on)) {}

  std::string text;
  Basis basis = {narrow::Evidence::by_definition, ""};
};

struct Outcome {
  std::vector<narrow::report::Table> tables;  // the one that answers the question first
  std::vector<narrow::report::Plot> plots;    // the same
  std::string finding;                // one sentence with its number, computed
  std::vector<narrow::report::Answer> answers;  // to what a practitioner asks first; most experiments have none
  Source data;
  // What it stands on beside the data and the definitions of formats and casts: models of tensor cores, vendors'
  // tables. run_experiment adds these two, and says all of it under every table and picture.
  std::vector<Basis> evidence;
  std::vector<std::string> notes;  // what the reader must know
};

struct Experiment {
  const char* name;      // as in `narrow run NAME`
  const char* question;  // one sentence with a question mark
  int place;             // on the page, ascending
  std::vector<Parameter> parameters;
  Outcome (*run)(const Parameters&, Progress&);
};

// All experiments by place. They register themselves before main() starts: in a file of analysis/experiments/ write
//   const Register entered([]() -> Experiment { return {"my_experiment", "What share of ... ?", 1, {...}, run}; });
// at namespace scope: a link of a list, so that nothing is allocated where nobody could hear that it failed. The files
// are linked as objects, so that no linker drops one that nobody calls.
const std::vector<Experiment>& experiments();
const Experiment& require_experiment(std::string_view name);  // throws narrow::Error with the closest name and the list

struct Register {
  explicit Register(Experiment (*make_it)()) noexcept;
  Experiment (*make)();
  const Register* before;
};

// Runs and checks: every table and plot is well formed, there is a finding, and the tables carry the parameters.
Outcome run_experiment(const Experiment& experiment, const Parameters& parameters, Progress& progress);

}  // namespace analysis
