// The large runs in data/gpt/runs, one folder a recipe as narrow.torch.watch wrote it, and what they are compared by.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/framework/run_folders.hpp"
#include "analysis/recordings/inputs.hpp"
#include "narrow/tensor/watched_run.hpp"

namespace analysis {

struct RecordedRun {
  std::string folder, name, recipe;  // name: of the folder, with seed, rate and remedy where they are not the usual
  std::int64_t seed = 1, steps = 0, tokens_per_step = 0, parameters = 0;
  double rate = 0, tokens_per_second = 0, peak_gib = 0, held_out_loss = 0;  // NaN: not said, or not a number
  bool was_busy = false;                         // the machine had other work: its speed says nothing
  std::string remedy = "none", arithmetic = {};  // arithmetic: torch, emulated; empty: not said
  std::vector<narrow::WatchedLoss> losses;
  std::optional<narrow::ScaleLog> scaler;

  bool has_other_rate = false;

  bool is_usual_but_seed() const { return remedy == "none" && !has_other_rate; }
  bool is_usual() const { return is_usual_but_seed() && seed == 1; }
  // Mean of the last 20 logged, or of the last 20 of the first so many; NaN where one is no number.
  double final_loss() const { return final_loss(losses.size()); }
  double final_loss(std::size_t of_first) const;
  std::optional<std::int64_t> first_not_finite() const;  // the step of the first loss that is Inf or NaN
  std::int64_t skipped() const;                          // steps
  // The most significant bits that a finite loss has: 4 where the loss itself was computed in E4M3. 0: no such loss.
  int loss_bits() const;
  std::string end_text() const;                          // "ends at a loss of 4.20"
  std::string size_text() const;                         // "at 121 M parameters"
};

// A final loss this share above another's is as good where no recipe was recorded at two seeds.
inline constexpr double as_good_share = 0.01;

// How far apart runs lie that differ in nothing but the seed. Recipes that fail scatter more and say nothing about
// those that train: of the recipes whose seeds all end within 5 % of the best, the one whose seeds differ most.
struct SeedSpread {
  std::vector<const RecordedRun*> runs;  // of one recipe; fewer than two: not known
  double final_loss = 0, held_out = 0;   // largest less smallest; NaN where not known
  double speed_share = 0;                // the same of tokens a second, as a share of the smallest
  std::vector<std::string> recipes = {};  // all that train and have several seeds; `runs` are of the one they move most

  bool is_known() const { return runs.size() > 1; }
};
SeedSpread spread_of_seeds(const std::vector<RecordedRun>& runs);

// A run's losses less another's of as many steps. One alone of two losses beyond the spread of the seeds decides
// nothing.
enum class Difference : std::uint8_t { within, above, below, undecided, unknown };
struct Compared {
  double final_loss = 0, held_out = 0;                   // NaN: not known
  double final_in_spreads = 0, held_out_in_spreads = 0;  // NaN: not known
  Difference verdict = Difference::unknown;
};
// A loss that is no number is above one that is. Held-out losses are of runs that have as many steps.
Compared compare(const RecordedRun& run, const RecordedRun& with, const SeedSpread& seeds);
std::string text_of(Difference verdict);

bool is_recorded(const std::string& folder);  // one of those below
// By name; none where NARROW_DATA is set to nothing.
std::vector<RecordedRun> recorded_runs();
RecordedRun recorded_run(const std::string& folder);
const RecordedRun* find_run(const std::vector<RecordedRun>& runs, std::string_view name);  // nullptr when there is none

// A gradient of made numbers around 2^centre, as a line of a run folder would have it.
narrow::WatchedTensor made_tensor(std::int64_t step, const std::string& name, int centre);

// "blocks.7" of "blocks.7.attention.qkv.weight", "head" of "head.weight": where a model's number of layers stands.
std::string layer_of(std::string_view name);
// The rest: "attention.qkv.weight"; of "head.weight" all of it.
std::string part_of(std::string_view name);

// The gradients of a tensor without their loss scale. Throws Error where the counts do not tell.
narrow::ExponentHistogram unscaled_histogram(const narrow::WatchedRun& run, const narrow::WatchedTensor& tensor);

}  // namespace analysis
