// The gradients that an experiment counts: which of the recorded tensors, or those of a file; and their largest scale.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/framework/shares.hpp"
#include "analysis/recordings/inputs.hpp"
#include "narrow/tensor/watched_run.hpp"

namespace analysis {

// What answers that stand on counts of binades say with them.
inline constexpr const char* binades_note =
    "Counted in binades: what is sure to be lost. A value at the first or last place of a binade may be on the other "
    "side "
    "of a limit, and so may any in a binade that a limit cuts, as E4M3's cuts that from 256 to 512.";
inline constexpr const char* bounded_note =
    "The run recorded no largest values: the end of the binade stands for the largest of a tensor.";
inline std::string without_overflow(bool is_bounded) {
  return is_bounded ? "sure not to overflow" : "without overflow";
}

struct Gradients {
  std::vector<RecordedTensor> tensors;
  narrow::ExponentHistogram all;
  double amax = 0;  // of the finite ones
  NotFinite not_finite;
  std::string what;                // for subtitles
  std::vector<std::string> notes;  // which tensors of a file were taken
  bool is_bounded = false;         // amax is the end of its binade
  std::string scaled_by = {};      // the loss scale of a watched run, whose doing Inf and NaN may be; empty: none

  void add(RecordedTensor t);
};

// kind: "grad" (of weights), "actgrad" (of activations), "" for both; what autocast holds in FP16.
Gradients from_pass(const RecordedPass& pass, std::string_view kind = "");
Gradients from_values(std::vector<Values> values);
// Tensors with "grad" in their names, or all floating tensors where there are none; a note says which.
Gradients from_file(const std::string& file);
// Of the last complete step of a watched run, without its loss scale. Throws Error where it has none, and where the
// scale is no power of two: binades cannot be divided by it.
Gradients from_run(const narrow::WatchedRun& run);

// What each asked format and scale makes of each tensor, and in the last row of all together: counted value by value
// where the values are known, else from the binades.
std::vector<std::vector<FormatShares>> shares_of(const Gradients& g, std::span<const narrow::ScaledFormat> asked);

const RecordedPass* find_pass(const Recording& r, std::string_view label);  // nullptr when there is none

// log2 of the loss scale that narrow/tensor/tensor_statistics.hpp chooses for these gradients in FP16.
int loss_scale_log2(const Gradients& g);
// The largest k so that no gradient times 2^k overflows FP16.
int largest_scale_log2(double amax);
// The binades as bars by what the first format makes of them, over the ranges of all; some value is not zero.
Panel binades_panel(const narrow::ExponentHistogram& h, std::span<const NamedFormat> formats);

double zeros_among(const narrow::ExponentHistogram& h);  // share of all values

// Activation gradients of a mean loss are 1/tokens as large: what the recorded histogram says about other batches, and
// what was recorded of them (NaN where nothing was).
struct TokenRow {
  double tokens, predicted_shift, measured_shift, predicted_zero, measured_zero, predicted_subnormal;
};
std::vector<TokenRow> token_rows(const Recording& r, const RecordedPass& base);

}  // namespace analysis
