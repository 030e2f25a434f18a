// The search of kernel forensics: models and plans tried on a few outputs, those that would tell most first.
#pragma once

#include <vector>

#include "narrow/dot/under_plans.hpp"
#include "narrow/dot/validate.hpp"

namespace narrow::detail {

struct OutputPlace {
  std::size_t item = 0, row = 0, col = 0;
};

// Models of one arithmetic; the likeliest speaks for all.
struct ModelClass {
  std::vector<const DotModel*> models;
};

// A model and a plan, both representatives of their kind.
struct Pair {
  std::size_t models = 0;  // index of the ModelClass
  Plan plan;
};

// Pairs that are known to give the same sums for this data, without computing them.
struct Trial {
  std::vector<Pair> members;  // the likeliest first
  std::uint32_t hits = 0, misses = 0;
  std::uint64_t distance = 0;  // see distance_between, over all outputs that were compared
  std::uint64_t compared() const { return hits + misses; }
};

struct Search {
  std::vector<ModelClass> classes;  // the likeliest first
  std::vector<Trial> trials;
  std::vector<OutputPlace> outputs;  // the most telling first
  std::size_t models = 0, pairs = 0;

  const DotModel& model(const Pair& p) const { return *classes[p.models].models.front(); }
};

// All that fits the request. Throws Error where nothing does. usual_only: fast models and the likeliest plans; of_gpu:
// only what the GPU that was named computes, where there is any.
struct SearchLimits {
  bool usual_only = false, of_gpu = false;
};
Search prepare_search(const ValidateRequest& request, const SearchLimits& limits = {});

// The outputs that tell plans apart first: those whose exact sum lies next to where the output's rounding turns, for
// outputs narrower than the accumulator; else places spread over D.
std::vector<OutputPlace> telling_outputs(const ValidateRequest& request, std::size_t count);

// Tries them. What is left in search.trials missed no more than half of the outputs, and no more than the best; where
// nothing did so well, one trial is left: the one with the most hits, then the nearest, and the likeliest where nothing
// was hit at all. Returns whether any did.
bool sift(const ValidateRequest& request, Search& search, Finish finish, double from, double to);

// Holds every trial against these outputs: hits and misses are counted.
void ask(const ValidateRequest& request, Search& search, const std::vector<OutputPlace>& places, Finish finish);

// Nanoseconds of one core that a product takes, about: what keeps the search within its time.
double cost_of(const DotModel& model);
bool is_fast(const DotModel& model);

// 0 for equal codes, else the bits of the distance in ulp, and more than any where one is NaN.
std::uint64_t distance_between(Code x, Code y, const Format& f);

}  // namespace narrow::detail
