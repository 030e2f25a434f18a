// What a practitioner asks of the large runs, answered from all of them together: parts of the answer of large_run.
#pragma once

#include <string>
#include <vector>

#include "analysis/experiments/large_gradients.hpp"
#include "analysis/framework/experiment.hpp"

namespace analysis::of_large_run {

// The runs that can be compared, against the best of them.
struct Ranking {
  const RecordedRun* best = nullptr;  // nullptr: fewer than two runs can be compared
  SeedSpread seeds;
  std::vector<const RecordedRun*> good;   // not shown to end above the best; itself among them
  std::vector<const RecordedRun*> worse;  // beyond the spread of the seeds, or no number
  std::vector<const RecordedRun*> open;   // the recordings do not tell

  bool is_among(const std::vector<const RecordedRun*>& some, const RecordedRun& run) const;
};
Ranking rank(const std::vector<RecordedRun>& runs);
std::string seeds_text(const SeedSpread& seeds);  // "bf16-amp's 2 seeds"

// By step. What is no number broke at that step; the others where they leave the best for good, which takes seeds.
struct Break {
  const RecordedRun* run;
  std::int64_t step;
  bool is_nan;
};
std::vector<Break> breaks_of(const Ranking& ranking);

// Tables and pictures: every run and every change of one thing against the seeds; what breaks first; emulated FP8
// against the GPU's; zeros among the gradients of runs that fail. The notes say what cannot be told.
void comparison_parts(const std::vector<RecordedRun>& runs, const Ranking& ranking, Outcome& out);
void fp8_check_parts(const std::vector<RecordedRun>& runs, Outcome& out);
void zero_parts(const std::vector<RecordedRun>& runs, const RecordedRun& reference, const Ranking& ranking,
                Outcome& out);

// Which recipe, what breaks first, which layers stay wide, which scale; and first of all whether FP16 needs one.
std::vector<Answer> answers_of(const std::vector<RecordedRun>& runs, const RecordedRun* reference,
                               const Ranking& ranking, const Reference& read);

}  // namespace analysis::of_large_run
