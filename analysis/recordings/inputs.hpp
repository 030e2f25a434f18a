// Where an experiment gets its numbers: the recordings in data/torch, a tensor file of the user, or numbers made here.
// Nothing here depends on the machine: files are read exactly, made numbers use integers and exact divisions only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/framework/experiment.hpp"
#include "narrow/array/histogram.hpp"
#include "narrow/tensor/find_data.hpp"

namespace analysis {

// ---- Files ----

using narrow::find_data;  // "torch/logs.json"; empty when made numbers are asked for

// One note for all experiments that fall back on made numbers.
std::string no_recordings_note(std::string_view instead);

// Whose data an answer is about: "recorded: a GPT at step 300", or the folder that NARROW_DATA names, of which nothing
// is known here; made numbers; a file without its folder.
Source recorded_text(std::string_view what);
inline constexpr const char* made_text = "made numbers, not recorded ones";
std::string file_text(const std::string& file);

// The values of one tensor, as rows of its last dimension.
struct Values {
  std::string name;
  std::size_t rows = 0, cols = 0;
  std::vector<float> data;              // in C order
  std::vector<std::size_t> shape = {};  // as the file has it, of values; empty for made ones
  std::uint64_t beyond_fp32 = 0;        // finite in the file (FP64), Inf here
  std::uint64_t below_fp32 = 0;         // not zero in the file, zero here
};

// The floating tensors of a file whose names contain `part` ("" for all), in the order of the file. Throws Error when
// the file has none, naming what it has. "FILE:TENSOR" takes that tensor alone. unread gets a note that names the
// tensors that are not floating or have no values, and counts what is too small for FP32.
std::vector<Values> read_values_of(const std::string& file, std::string_view part = "", std::string* unread = nullptr);
const Values* find_values(const std::vector<Values>& all, std::string_view name);  // nullptr when there is none

// What in data is no number that a format could hold. Whoever leaves it out names it.
struct NotFinite {
  std::uint64_t nan = 0, inf = 0, beyond_fp32 = 0;  // beyond_fp32: of the Inf, those that the file holds as numbers

  void add(const Values& values);
  void add(const NotFinite& other) { nan += other.nan, inf += other.inf, beyond_fp32 += other.beyond_fp32; }
  bool any() const { return nan + inf > 0; }
  std::string text() const;  // "2 NaN and 1 Inf"; "" where there is none
};

// weights, activations, weight gradients, activation gradients, gradients, attention: by the names that recorders give;
// empty where the name does not tell.
std::string kind_of_tensor(std::string_view name);

// ---- The recorded training run (data/torch/histograms.json, made by record_gpt.py) ----

struct RecordedTensor {
  std::string kind;  // weight, grad, act, actgrad
  std::string name;
  double amax = 0;
  narrow::ExponentHistogram histogram;  // magnitudes: all counted as positive
  std::vector<float> values = {};       // of a tensor file; empty where only the histogram was recorded
};

struct RecordedPass {
  std::string label;
  int step = 0;
  double scale = 1;  // of the loss; gradients are recorded as they are, that is scaled
  std::int64_t tokens = 0;
  std::string type;  // float32: what is to be represented; float16: what the GPU made of it under autocast
  std::vector<RecordedTensor> tensors;
};

struct AttentionRow {
  int step = 0, layer = 0, head = 0;
  double score_amax = 0, q_rms = 0, k_rms = 0;  // scores before 1/sqrt(d)
};

struct Recording {
  int width = 0, heads = 0, layers = 0, context = 0;
  std::vector<RecordedPass> passes;
  std::vector<AttentionRow> attention;
};
std::optional<Recording> load_recording();  // empty when it is not there; throws Error when it cannot be read

// ---- Step by step (data/torch/logs.json) ----

struct TrainingLog {
  std::string name;  // "fp16 from 2^30"
  std::string type;
  double init_scale = 0;  // 0: no scaler
  int growth_interval = 0;
  // One entry a step; NaN where the run gave Inf or NaN. grad_amax: of the unscaled gradients that autocast holds in
  // FP16; score_amax: of the attention scores before 1/sqrt(d).
  std::vector<double> loss, scale, grad_amax, score_amax;
  std::vector<std::uint8_t> found_inf;  // all columns have as many entries as loss, and that is at least one
};
std::vector<TrainingLog> load_logs();  // empty when they are not there
// nullptr when there is none of that name or when it has fewer steps.
const TrainingLog* find_log(const std::vector<TrainingLog>& logs, std::string_view name, std::size_t least_steps = 1);

// ---- Made numbers ----

double uniform(std::uint64_t seed, std::uint64_t index);  // in [0, 1), 53 bits
// Standard normal: the ones among 512 random bits, centred, smoothed by less than one count and divided by the standard
// deviation. Tails are right to 10 % of their probability up to 5 standard deviations; no logarithm is needed.
double normal(std::uint64_t seed, std::uint64_t index);
std::vector<float> normal_values(std::size_t count, double deviation, std::uint64_t seed);
// Gradients as in the recordings: normal numbers whose size varies by binades from row to row and from element to
// element, around 2^centre.
Values made_gradients(std::size_t rows, std::size_t cols, int centre, std::uint64_t seed);

}  // namespace analysis
