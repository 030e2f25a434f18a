// Statements from tutorials held against measurement: what a statement is, and the rules by which a measurement judges
// it. The statements themselves are in claims_*.cpp, by theme.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/framework/experiment.hpp"
#include "analysis/recordings/recorded_runs.hpp"

namespace analysis {

// The formats that statements are about.
inline constexpr narrow::Format fp16 = narrow::operator""_fmt("fp16", 4), bf16 = narrow::operator""_fmt("bf16", 4),
                                e4m3 = narrow::operator""_fmt("e4m3", 4), e5m2 = narrow::operator""_fmt("e5m2", 4);

enum class Verdict : std::uint8_t {
  holds,
  loose,  // true in part, or of the right size but not the right number
  wrong,
  depends,    // true in some of the cases measured and false in others
  not_shown,  // said of large runs; the small ones here can neither show nor refute it
  unmeasured  // the recording that it needs is not there
};
constexpr std::string_view name_of(Verdict v) {
  constexpr std::string_view names[] = {"holds", "loose", "wrong", "depends", "not shown at this size", "not measured"};
  return names[static_cast<std::size_t>(v)];
}

// ---- The rules. A verdict comes from one of these and from nowhere else. ----

// A number that a text gives. It holds when the measured one rounds to it (within `unit` / 2, unit being that of its
// last digit), is loose within a factor of 1.5, else wrong.
inline constexpr double loose_factor = 1.5;
inline Verdict judge_number(double said, double measured, double unit) {
  if (std::fabs(said - measured) <= unit / 2) return Verdict::holds;
  const double ratio = measured / said;
  return ratio > 1 / loose_factor && ratio < loose_factor ? Verdict::loose : Verdict::wrong;
}

// How many parts of a statement are true.
inline Verdict judge_parts(std::size_t are_true, std::size_t all) {
  return are_true == all ? Verdict::holds : are_true == 0 ? Verdict::wrong : Verdict::loose;
}

// In how many of the cases it is true.
inline Verdict judge_cases(std::size_t are_true, std::size_t all) {
  return are_true == all ? Verdict::holds : are_true == 0 ? Verdict::wrong : Verdict::depends;
}

// A range that a text gives, over the cases that were measured. A case is true within the range (to half a unit of its
// last digit) and near within a factor of 1.5 of it. All true: holds; all near: loose; none near: wrong; else it
// depends.
inline Verdict judge_range(double low, double high, double unit, const std::vector<double>& measured) {
  std::size_t are_true = 0, near = 0;
  for (const double m : measured) {
    are_true += m >= low - unit / 2 && m <= high + unit / 2;
    near += m > low / loose_factor && m < high * loose_factor;
  }
  if (measured.empty()) return Verdict::unmeasured;
  if (are_true == measured.size()) return Verdict::holds;
  return near == measured.size() ? Verdict::loose : near == 0 ? Verdict::wrong : Verdict::depends;
}

// Something is said to fail, and small models are what it was tried on: a failure shows it, and that all of them went
// well says nothing about large ones.
inline Verdict judge_failure(std::size_t failed, std::size_t all) {
  return failed == 0 ? Verdict::not_shown : judge_cases(failed, all);
}

// A share of things that are as the statement says: nine of ten hold, half is loose.
inline Verdict judge_share(double share) {
  return share >= 0.9 ? Verdict::holds : share >= 0.5 ? Verdict::loose : Verdict::wrong;
}

// An operation needs FP32 when 16 bits lose more than ten times what a product in these 16 bits loses, or overflow.
inline constexpr double needs_factor = 10;

// ---- A statement ----

struct Measurement {
  std::string text;  // what was measured, with its numbers
  Verdict verdict = Verdict::unmeasured;
};
inline Measurement not_measured_without(std::string_view file) {
  return {"needs data/" + std::string(file), Verdict::unmeasured};
}

// What statements are measured on, opened once.
struct Study {
  std::optional<Recording> recording;
  std::vector<TrainingLog> logs;
  std::vector<RecordedRun> large;                    // a GPT of 121 M parameters
  double gradient = 0, scale = 0;                    // of the exercise
  std::uint64_t steps = 0, lm_steps = 0, seeds = 0;  // of training runs
  Progress* progress = nullptr;
};

struct Claim {
  int number;
  const char* files;      // of the texts: "001, 002"
  const char* statement;  // in our own words
  Measurement (*measure)(const Study&);
  std::string command;  // what shows it
};

using Claims = std::vector<Claim>;
Claims format_claims();
Claims gradient_claims();
Claims scaler_claims();
Claims operation_claims();
Claims training_claims();
Claims machine_claims();
Claims practice_claims();
Claims all_claims();  // by number

Study open_study(const Parameters& parameters);  // its progress is to be set

// ---- Shared by themes ----

// Recorded in FP32 at loss scale 1, one a training step.
std::vector<const RecordedPass*> plain_passes(const Recording& recording);

// A table of another experiment with its own parameters, computed once, and the number of a row (by its first column)
// under a column; NaN where there is none.
const narrow::report::Table& experiment_table(const char* experiment, std::string_view table);
double table_cell(const narrow::report::Table& table, std::string_view row, std::string_view column);

// One large run against another; nothing where one of them is not recorded. Worse: by more than the seeds differ, or by
// more than 1 % where no recipe was recorded at two.
struct AtSize {
  std::string text;  // "at 121 M parameters tf32 4.17, bf16-amp 4.20 (not decided)"
  bool is_worse = false, is_nan = false;
};
std::optional<AtSize> at_size(const Study& study, std::string_view run, std::string_view with);

inline std::string digits(double x, int count = 3) { return narrow::report::significant_text(x, count); }
inline std::string share(double part) { return narrow::report::percent_text(part); }

}  // namespace analysis
