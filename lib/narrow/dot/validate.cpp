#include "narrow/dot/validate.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "narrow/base/error.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/dot/gemm_checks.hpp"
#include "narrow/dot/plan_ladder.hpp"
#include "narrow/dot/suspicions.hpp"
#include "narrow/dot/validate_sample.hpp"
#include "narrow/format/neighbours.hpp"

namespace narrow {

namespace {

using detail::Trial;
using detail::ValidateSample;

// Models of one arithmetic; the first in table order speaks for all.
struct ModelClass {
  std::vector<const DotModel*> models;
};

bool takes(const DotType& type, const Format& format, int code_bytes) {
  return type.format == format || (type.format == "tf32"_fmt && format == "fp32"_fmt && code_bytes == 4);
}

std::vector<ModelClass> fitting_models(const ValidateRequest& r) {
  std::vector<ModelClass> classes;
  for (const DotModel& m : dot_models()) {
    if (r.model != nullptr && r.model != &m) continue;
    if (!takes(m.a, r.a_format, r.a.code_bytes) || !takes(m.b, r.b_format, r.b.code_bytes)) continue;
    if (m.is_integer() && !r.d_format.is_integer() && r.d_format != "fp32"_fmt) continue;
    if (!m.is_integer() && r.d_format.is_integer()) continue;
    if (m.is_block_scaled() && r.model == nullptr && r.options.block_a.empty() && r.options.block_b.empty()) continue;
    if (!m.is_block_scaled() && (!r.options.block_a.empty() || !r.options.block_b.empty())) continue;
    // Sums in FP64 end in what is narrower; sums in a narrow format end there or wider.
    const auto same = std::find_if(classes.begin(), classes.end(), [&](const ModelClass& c) { return same_arithmetic(*c.models[0], m); });
    if (same != classes.end()) same->models.push_back(&m);
    else classes.push_back({{&m}});
  }
  return classes;
}

void check_request(const ValidateRequest& r) {
  const auto shape = [](const CodeMatrix& m) { return std::to_string(m.rows) + "x" + std::to_string(m.cols); };
  if (r.a.rows == 0 || r.a.cols == 0 || r.b.cols == 0) throw Error("validate: empty matrices (A " + shape(r.a) + ", B " + shape(r.b) + ") tell nothing");
  if (r.a.cols != r.b.rows) throw Error("validate: A is " + shape(r.a) + " and B is " + shape(r.b) + ": A must have as many columns as B has rows");
  if (r.d.rows != r.a.rows || r.d.cols != r.b.cols)
    throw Error("validate: A B is " + std::to_string(r.a.rows) + "x" + std::to_string(r.b.cols) + " and D is " + shape(r.d));
  if (r.c.data != nullptr && (r.c.rows != r.d.rows || r.c.cols != r.d.cols))
    throw Error("validate: D is " + shape(r.d) + " and C is " + shape(r.c));
  for (std::size_t i = 0; i < r.d.rows; ++i)
    for (std::size_t j = 0; j < r.d.cols; ++j)
      if (!is_nan(r.d(i, j), r.d_format)) return;
  throw Error("validate: every element of D is NaN: nothing can be told from it");
}

// Whether gemm would take this plan with this model, and it is worth trying.
bool plan_fits(const ValidateRequest& r, const DotModel& m, const Plan& p) {
  if (!r.plan && p.join_in_output && r.d_format == "fp32"_fmt) return false;  // the usual join under another name
  return detail::plan_problem(m, p, r.options).empty();
}

// The plans to try with a model.
std::vector<Plan> plans_for(const ValidateRequest& r, const DotModel& m) {
  std::vector<Plan> plans = r.plan ? std::vector<Plan>{*r.plan} : detail::plan_ladder(r.a.cols, m.a.format == "tf32"_fmt);
  std::erase_if(plans, [&](const Plan& p) { return !plan_fits(r, m, p); });
  return plans;
}

// Runs trials on a sample, in parallel.
void score(std::vector<Trial>& trials, const ValidateSample& sample, const std::function<void(double)>& progress, double from, double to) {
  std::atomic<std::size_t> done{0};
  parallel_parts(trials.size(), 1, 0, [&](std::size_t begin, std::size_t) {
    sample.score(trials[begin]);
    const std::size_t n = ++done;
    if (progress && n % 16 == 0) progress(from + (to - from) * static_cast<double>(n) / static_cast<double>(trials.size()));
  });
}

void keep_best(std::vector<Trial>& trials, std::size_t count) {
  std::stable_sort(trials.begin(), trials.end(), [](const Trial& x, const Trial& y) { return x.distance < y.distance; });
  if (trials.size() > count) trials.resize(count);
}

// Few outputs first, more for those that are left. True when a trial is right on the whole of the last sample: then only
// such trials stay, else the best of them. stream-K cuts by the place of the output, so a plan of it is not sampled.
bool sift(const ValidateRequest& r, std::size_t attempt, std::vector<Trial>& trials, double from, double to) {
  if (r.plan && r.plan->order == SumOrder::stream_k) return !trials.empty();
  struct Stage {
    std::size_t rows, cols, survivors;
    double share;
  };
  bool any_exact = false;
  for (const Stage& stage : {Stage{1, 2, 200, 0.6}, Stage{2, 16, 40, 0.8}, Stage{16, 64, 8, 1}}) {
    if (trials.empty()) return false;
    const ValidateSample sample(r, stage.rows, stage.cols, attempt);
    score(trials, sample, r.progress, from, from + (to - from) * stage.share);
    any_exact = std::any_of(trials.begin(), trials.end(), [](const Trial& t) { return t.exact; });
    if (any_exact) std::erase_if(trials, [](const Trial& t) { return !t.exact; });
    else keep_best(trials, stage.survivors);
  }
  return any_exact;
}

// All of D against one model and plan.
struct FullComparison {
  std::uint64_t equal = 0, max_ulp = 0, nan_mismatch = 0, distance = 0;
  std::array<std::uint64_t, 33> ulp_counts{};
};

FullComparison compare_all(const ValidateRequest& r, const std::vector<std::uint64_t>& expected) {
  FullComparison c;
  for (std::size_t i = 0; i < r.d.rows; ++i)
    for (std::size_t j = 0; j < r.d.cols; ++j) {
      const Code x = expected[i * r.d.cols + j], y = r.d(i, j) & r.d_format.code_mask();
      if (x == y) {
        ++c.equal, ++c.ulp_counts[0];
        continue;
      }
      c.distance += detail::distance_between(x, y, r.d_format);
      if (is_nan(x, r.d_format) || is_nan(y, r.d_format)) {
        ++c.nan_mismatch;
        continue;
      }
      const std::uint64_t distance = ulp_distance(x, y, r.d_format);
      c.max_ulp = std::max(c.max_ulp, distance);
      // Two zeros of unlike signs differ in bits and not in value: they count with the nearest.
      ++c.ulp_counts[static_cast<std::size_t>(std::clamp(bit_length(distance), 1, 32))];
    }
  return c;
}

std::optional<FailingDot> smallest_failure(const ValidateRequest& r, const DotModel& m, const Plan& plan,
                                           const std::vector<std::uint64_t>& expected) {
  const detail::OperandCodes a(r.a, m.a.format, plan.operands), b(r.b, m.b.format, plan.operands);
  std::optional<FailingDot> best;
  std::size_t best_products = ~std::size_t{0};
  constexpr std::size_t looked_at = 4096;  // outputs that differ: enough to find a short one
  std::size_t seen = 0;
  for (std::size_t i = 0; i < r.d.rows && seen < looked_at; ++i)
    for (std::size_t j = 0; j < r.d.cols && seen < looked_at; ++j) {
      if (expected[i * r.d.cols + j] == (r.d(i, j) & r.d_format.code_mask())) continue;
      ++seen;
      std::size_t products = 0;
      for (std::size_t k = 0; k < r.a.cols; ++k)
        products += magnitude_of(a(i, k), m.a.format) != 0 && magnitude_of(b(k, j), m.b.format) != 0 ? 1 : 0;
      if (products >= best_products) continue;
      best_products = products;
      best = FailingDot{i, j, {}, {}, r.c.data != nullptr ? r.c(i, j) : 0, expected[i * r.d.cols + j], r.d(i, j)};
    }
  if (!best) return best;
  for (std::size_t k = 0; k < r.a.cols; ++k) best->a.push_back(a(best->row, k)), best->b.push_back(b(k, best->col));
  while (best->a.size() > 1 && magnitude_of(best->a.back(), m.a.format) == 0 && magnitude_of(best->b.back(), m.b.format) == 0)
    best->a.pop_back(), best->b.pop_back();
  return best;
}

// What a candidate gives for all of D.
std::vector<std::uint64_t> full_product(const ValidateRequest& r, const DotModel& m, const Plan& plan) {
  std::vector<std::uint64_t> d(r.d.rows * r.d.cols);
  GemmOptions options = r.options;
  options.output = r.d_format;
  gemm(m, plan, r.a, r.b, r.c, MatrixView<std::uint64_t>{d.data(), r.d.rows, r.d.cols}, options);
  return d;
}

// What is left of all trials after sampling. Fast models first: where one of them is exact, slow ones are tried with the
// plans that survived; else with all.
std::vector<Trial> survivors(const ValidateRequest& r, std::size_t attempt, std::vector<Trial> fast, std::vector<Trial> slow) {
  const bool fast_exact = sift(r, attempt, fast, 0, 0.5);
  if (fast_exact)
    std::erase_if(slow, [&](const Trial& s) {
      return std::none_of(fast.begin(), fast.end(), [&](const Trial& t) { return t.plan == s.plan; });
    });
  const bool slow_exact = sift(r, attempt, slow, 0.5, 0.9);
  if (slow_exact && !fast_exact) fast.clear();
  if (fast_exact && !slow_exact) slow.clear();
  fast.insert(fast.end(), slow.begin(), slow.end());
  if (!fast_exact && !slow_exact) keep_best(fast, 4);
  return fast;
}

}  // namespace

ValidateResult validate(const ValidateRequest& r) {
  check_request(r);
  const std::vector<ModelClass> classes = fitting_models(r);
  if (classes.empty()) {
    if (r.model != nullptr) throw Error("validate: " + std::string(r.model->name.view()) + " does not take operands of these types");
    throw Error("validate: no model takes operands of these types and gives such a result");
  }
  ValidateResult result;
  result.total = r.d.rows * r.d.cols;
  std::vector<Trial> trials, slow_trials;
  for (const ModelClass& c : classes) {
    result.models_tried += c.models.size();
    const bool slow = detail::engine_of(*c.models[0]) == detail::EngineKind::none;
    for (const Plan& plan : plans_for(r, *c.models[0])) (slow ? slow_trials : trials).push_back({c.models[0], plan});
  }
  if (trials.empty() && slow_trials.empty())
    throw Error("validate: plan " + plan_text(*r.plan) + " fits no model that takes operands of these types");
  result.plans_tried = trials.size() + slow_trials.size();

  // A wrong word of D in the first sample could throw out the truth: without an exact match other samples get a try.
  constexpr std::size_t attempts = 3;
  std::optional<Trial> closest;
  FullComparison closest_full;
  std::vector<Trial> exact;
  for (std::size_t attempt = 0; attempt < attempts && exact.empty(); ++attempt)
    for (const Trial& t : survivors(r, attempt, trials, slow_trials)) {
      const FullComparison full = compare_all(r, full_product(r, *t.model, t.plan));
      if (full.equal == result.total) exact.push_back(t);
      if (!closest || full.distance < closest_full.distance) closest = t, closest_full = full;
    }
  result.exact = !exact.empty();
  result.equal_count = closest_full.equal;
  result.max_ulp = closest_full.max_ulp;
  result.ulp_counts = closest_full.ulp_counts;
  result.nan_mismatch = closest_full.nan_mismatch;

  // Every model of a class, in the order of the table, with its plans.
  const std::vector<Trial> named = result.exact ? exact : std::vector<Trial>{*closest};
  for (const DotModel& m : dot_models())
    for (const ModelClass& c : classes) {
      if (std::find(c.models.begin(), c.models.end(), &m) == c.models.end()) continue;
      for (const Trial& t : named)
        if (t.model == c.models[0]) result.candidates.push_back({&m, t.plan});
    }
  if (!result.exact) {
    const std::vector<std::uint64_t> expected = full_product(r, *closest->model, closest->plan);
    result.failing = smallest_failure(r, *closest->model, closest->plan, expected);
    result.suspicions = detail::suspicions(r, *closest, expected, closest_full.equal);
  }
  if (r.progress) r.progress(1);
  return result;
}

}  // namespace narrow
