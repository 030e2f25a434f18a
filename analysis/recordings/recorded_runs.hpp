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
  std::string remedy = "none", arithmetic = {};  // arithmetic: torch, emulated; empty: not said
  std::vector<narrow::WatchedLoss> losses;
  std::optional<narrow::ScaleLog> scaler;

  bool has_other_rate = false;

  bool is_usual() const { return remedy == "none" && seed == 1 && !has_other_rate; }
  double final_loss() const;                             // mean of the last 20 logged; NaN where one is no number
  std::optional<std::int64_t> first_not_finite() const;  // the step of the first loss that is Inf or NaN
  std::int64_t skipped() const;                          // steps
  std::string end_text() const;                          // "ends at a loss of 4.20"
  std::string size_text() const;                         // "at 121 M parameters"
};

// A final loss this share above another's is as good: about what another seed changes in runs of this kind.
inline constexpr double as_good_share = 0.01;

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
