// The gradients of one large run by step and layer, and what FP16 and FP8 would make of them: parts of the answer of
// large_run.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "analysis/framework/shares.hpp"
#include "analysis/recordings/recorded_runs.hpp"
#include "narrow/format/find_format.hpp"

namespace analysis::of_large_run {

using namespace narrow;

// Without their loss scale.
struct Pool {
  ExponentHistogram h;
  double amax = 0, least_amax = 0;  // two ends of a binade where no more is known

  void add(const ExponentHistogram& other, const WatchedTensor& t) {
    h.merge(other);
    const double largest = t.unscaled(t.amax);
    amax = std::max(amax, largest);
    least_amax = std::max(least_amax, t.has_extremes || largest == 0 ? largest : std::ldexp(1.0, std::ilogb(largest)));
  }
};

struct GradientsByStep {
  std::map<std::int64_t, Pool> steps;
  std::map<std::int64_t, std::map<std::string, Pool>> layers;
  std::map<std::int64_t, std::map<std::string, Pool>> parts;
  std::vector<std::string> order;  // of layers, by their numbers
  bool in_fp16 = false, is_bounded = false;
  std::int64_t broke_at = -1;  // the first step from which on no gradient is finite and not zero

  void add(const WatchedTensor& t, const ExponentHistogram& h) {
    const std::string layer = t.name.empty() ? "(no name)" : layer_of(t.name),
                      kind = t.role == "gradient" ? "" : " (activation)";
    steps[t.step].add(h, t), layers[t.step][layer].add(h, t), parts[t.step][part_of(t.name) + kind].add(h, t);
    if (std::find(order.begin(), order.end(), layer) == order.end()) order.push_back(layer);
    in_fp16 = in_fp16 || t.dtype == "fp16", is_bounded = is_bounded || !t.has_extremes;
  }
  // A run that broke ends with steps that have nothing to count.
  void drop_empty_end() {
    while (!steps.empty() && nonzero_count(last().h) == 0) broke_at = last_step(), steps.erase(broke_at);
  }
  const Pool& last() const { return steps.rbegin()->second; }
  std::int64_t last_step() const { return steps.rbegin()->first; }
};

// Attention scores of the watched steps.
struct Scores {
  std::map<std::int64_t, double> largest;  // of the finite ones
  std::int64_t broke_at = -1;              // the first step with Inf or NaN
  bool is_bounded = false;

  void see(const WatchedTensor& t);
};
Scores scores_in(const std::string& folder);

// All that is shown of the run whose gradients are counted, read once.
struct Reference {
  GradientsByStep gradients;
  LastStep last;  // every kind of tensor
  Scores scores;
  std::map<std::string, Scores> grown;  // by folder: of runs at another rate, and of those with a remedy
  std::map<std::pair<std::int64_t, std::string>, ExponentHistogram> wide;  // gradients of activations, not in FP16
};

Reference read_reference(const std::string& folder);
Reference made_reference();

// What FP16 turns into zero when it is multiplied by 2^scale_log2, as a share of what is not zero; NaN where all is.
double zero_at(const ExponentHistogram& h, int scale_log2);

struct Worst {
  std::string name;
  double zero = -1;
};
Worst worst_layer(const GradientsByStep& g);  // at the last step

void sort_layers(std::vector<std::string>& names);  // by their numbers: blocks.2 before blocks.10

// The layer and kind of tensor that lose most to zero and overflow in FP8 with a scale a tensor: E5M2 for gradients of
// activations, E4M3 for activations and weights. No layer where none of these were watched.
struct Fp8Worst {
  std::string layer, kind;
  double lost = -1;
};
Fp8Worst worst_layer_in_fp8(const std::vector<WatchedTensor>& tensors);

// Tables and pictures: by layer and step, by part of a layer, at any loss scale; and what a scale a tensor is to FP8.
void gradient_parts(const GradientsByStep& g, const std::string& about, Outcome& out);
void fp8_parts(const Reference& read, const std::string& about, Outcome& out);

}  // namespace analysis::of_large_run
