// The gradients that an experiment counts: which of the recorded tensors, or those of a file; and their largest scale.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "inputs.hpp"
#include "shares.hpp"

namespace analysis {

struct Gradients {
  std::vector<RecordedTensor> tensors;
  narrow::ExponentHistogram all;
  double amax = 0;
  std::string what;  // for subtitles

  void add(RecordedTensor t);
};

// kind: "grad" (of weights), "actgrad" (of activations), "" for both; what autocast holds in FP16.
Gradients from_pass(const RecordedPass& pass, std::string_view kind = "");
Gradients from_values(const std::vector<Values>& values);
// Tensors with "grad" in their names, or all floating tensors where there are none.
Gradients from_file(const std::string& file);

const RecordedPass* find_pass(const Recording& r, std::string_view label);  // nullptr when there is none

// The largest k so that no gradient times 2^k overflows FP16.
int best_scale_log2(double amax);
double zeros_among(const narrow::ExponentHistogram& h);  // share of all values

// Activation gradients of a mean loss are 1/tokens as large: what the recorded histogram says about other batches, and
// what was recorded of them (NaN where nothing was).
struct TokenRow {
  double tokens, predicted_shift, measured_shift, predicted_zero, measured_zero, predicted_subnormal;
};
std::vector<TokenRow> token_rows(const Recording& r, const RecordedPass& base);

}  // namespace analysis
