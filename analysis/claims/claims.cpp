// Which of the things that tutorials say about mixed precision hold when they are measured?
#include "analysis/claims/claims.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace analysis {
namespace {

using namespace narrow;

struct Judged {
  const Claim* claim;
  Measurement measurement;
};

constexpr Verdict verdicts[] = {Verdict::holds, Verdict::loose,     Verdict::depends,
                                Verdict::wrong, Verdict::not_shown, Verdict::unmeasured};
constexpr std::size_t verdict_count = std::size(verdicts);

std::array<std::size_t, verdict_count> count_verdicts(const std::vector<Judged>& judged, std::string_view file = "") {
  std::array<std::size_t, verdict_count> counts{};
  for (const Judged& j : judged)
    if (std::string_view(j.claim->files).find(file) != std::string_view::npos)
      ++counts[static_cast<std::size_t>(j.measurement.verdict)];
  return counts;
}

// One bar a text, its statements by verdict.
Plot verdict_plot(const std::vector<Judged>& judged, const std::string& title) {
  constexpr const char* files[] = {"000", "001", "002", "003", "004"};
  constexpr PlotColour colours[] = {PlotColour::blue,      PlotColour::sky,    PlotColour::orange,
                                    PlotColour::vermilion, PlotColour::purple, PlotColour::grey};
  Panel panel;
  panel.horizontal = true, panel.bars = BarLayout::stacked, panel.bar_width = 0.7;
  panel.x.label = "statements";
  for (const char* file : files) panel.y.categories.push_back("text " + std::string(file));
  for (std::size_t v = 0; v < verdict_count; ++v) {
    Series s{.name = std::string(name_of(verdicts[v])), .draw = Draw::bars, .colour = colours[v]};
    double all = 0;
    for (std::size_t i = 0; i < std::size(files); ++i) {
      s.x.push_back(static_cast<double>(i));
      s.y.push_back(static_cast<double>(count_verdicts(judged, files[i])[static_cast<std::size_t>(verdicts[v])]));
      all += s.y.back();
    }
    if (all > 0) panel.series.push_back(std::move(s));
  }
  return {"verdicts", title, "Five tutorials; a statement that two of them make counts for both", {panel}, 1, 260, ""};
}

// Measuring takes from nothing to seconds; the bar moves by statements.
class Part : public Progress {
 public:
  Part(Progress& whole, double from, double to) : whole_(&whole), from_(from), to_(to) {}
  void at(double part, std::string_view what) override { whole_->at(from_ + (to_ - from_) * part, what); }

 private:
  Progress* whole_;
  double from_, to_;
};

Outcome run(const Parameters& parameters, Progress& progress) {
  Study study = open_study(parameters);
  Outcome out;
  out.data = study.recording
                 ? recorded_text("a byte-level GPT and one of 121 M parameters in training; and runs made here")
                 : Source(made_text);
  out.evidence = {{Evidence::published, "what devices multiply, by their vendors"}};
  const Claims claims = all_claims();
  std::vector<Judged> judged;
  Table t{"verdicts",
          "Statements of five tutorials, measured",
          {integer_column("number"), text_column("text"), text_column("statement"), text_column("verdict"),
           text_column("measured"), text_column("command")},
          {},
          "text: the number of the tutorial. holds: as said; loose: in part, or of the right size; wrong: not as said; "
          "depends: true in some of the measured cases; not shown at this size: said of large runs, and the small ones "
          "here can neither show nor refute it. Each verdict follows from its measurement by a rule of "
          "analysis/claims/claims.hpp. Statements are in our words.",
          {}};
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const auto place = [&](std::size_t n) { return static_cast<double>(n) / static_cast<double>(claims.size()); };
    Part part(progress, place(i), place(i + 1));
    part.at(0, "statement " + std::to_string(claims[i].number));
    study.progress = &part;
    judged.push_back({&claims[i], claims[i].measure(study)});
    const Judged& j = judged.back();
    t.add({std::int64_t{claims[i].number}, std::string(claims[i].files), std::string(claims[i].statement),
           std::string(name_of(j.measurement.verdict)), j.measurement.text, claims[i].command});
  }
  const auto counts = count_verdicts(judged);
  const auto count = [&](Verdict v) { return std::to_string(counts[static_cast<std::size_t>(v)]); };
  out.finding = "Of " + std::to_string(judged.size()) + " statements from five tutorials " + count(Verdict::holds) +
                " hold, " + count(Verdict::loose) + " are loose, " + count(Verdict::depends) +
                " depend on the case and " + count(Verdict::wrong) + " are wrong";
  if (counts[static_cast<std::size_t>(Verdict::not_shown)] > 0)
    out.finding += "; " + count(Verdict::not_shown) + " cannot be shown with models of this size";
  if (counts[static_cast<std::size_t>(Verdict::unmeasured)] > 0) {
    out.finding += "; " + count(Verdict::unmeasured) + " need recordings that are not here";
    out.notes.push_back(no_recordings_note("what needs them is not measured"));
  }
  out.finding += ".";
  out.tables = {std::move(t)};
  out.plots = {verdict_plot(
      judged, count(Verdict::holds) + " of " + std::to_string(judged.size()) + " statements hold as they are said")};
  return out;
}

const Register entered([]() -> Experiment {
  return {"claims",
          "What do tutorials say about mixed precision, and does it hold?",
          13,
          {real_parameter("gradient", 1e-8, 1e-40, 1e4, "gradient of the exercise (statement 29)"),
           real_parameter("loss_scale", 1024, 1, 1e9, "loss scale of the exercise"),
           integer_parameter("steps", {150, 300, 600}, 20, 1e6, "training steps on digits"),
           integer_parameter("lm_steps", {100, 200, 600}, 20, 1e6, "training steps of the language model"),
           integer_parameter("seeds", {2, 3, 5}, 1, 100, "training runs a recipe on digits")},
          run};
});

}  // namespace

Claims all_claims() {
  Claims all;
  for (Claims (*theme)() : {format_claims, gradient_claims, scaler_claims, operation_claims, training_claims,
                            machine_claims, practice_claims})
    for (Claim& c : theme()) all.push_back(std::move(c));
  std::sort(all.begin(), all.end(), [](const Claim& a, const Claim& b) { return a.number < b.number; });
  return all;
}

const Table& experiment_table(const char* experiment, std::string_view table) {
  static std::map<std::string, Outcome> outcomes;
  if (outcomes.count(experiment) == 0) {
    const Experiment& e = require_experiment(experiment);
    Progress nobody;
    outcomes[experiment] = e.run(Parameters(e, {}, Effort::fast), nobody);
  }
  for (const Table& t : outcomes.at(experiment).tables)
    if (t.name == table) return t;
  throw Error(std::string(experiment) + " has no table " + std::string(table));
}

double table_cell(const Table& table, std::string_view row, std::string_view column) {
  for (const auto& cells : table.rows)
    if (std::get<std::string>(cells.front()) == row)
      for (std::size_t i = 0; i < table.columns.size(); ++i)
        if (table.columns[i].name == column) {
          const double* x = std::get_if<double>(&cells[i]);
          return x == nullptr ? std::nan("") : *x;
        }
  throw Error("table " + table.name + " has no " + std::string(row) + ", " + std::string(column));
}

std::optional<AtSize> at_size(const Study& study, std::string_view run, std::string_view with) {
  const RecordedRun *r = find_run(study.large, run), *base = find_run(study.large, with);
  if (r == nullptr || base == nullptr || std::isnan(base->final_loss())) return {};
  const Difference verdict = compare(*r, *base, spread_of_seeds(study.large)).verdict;
  const bool is_nan = std::isnan(r->final_loss());
  return AtSize{base->size_text() + " " + base->name + " " + digits(base->final_loss(), 4) + ", " + r->name + " " +
                    (is_nan ? "NaN" : digits(r->final_loss(), 4)) + " (" + text_of(verdict) + ")",
                verdict == Difference::above ||
                    (verdict == Difference::unknown && !(r->final_loss() <= base->final_loss() * (1 + as_good_share))),
                is_nan};
}

Study open_study(const Parameters& parameters) {
  Study study;
  study.recording = load_recording();
  study.logs = load_logs();
  study.large = recorded_runs();
  std::erase_if(study.large, [](const RecordedRun& r) { return r.losses.empty(); });
  study.gradient = parameters.real("gradient"), study.scale = parameters.real("loss_scale");
  study.steps = static_cast<std::uint64_t>(parameters.integer("steps"));
  study.lm_steps = static_cast<std::uint64_t>(parameters.integer("lm_steps"));
  study.seeds = static_cast<std::uint64_t>(parameters.integer("seeds"));
  return study;
}

}  // namespace analysis
