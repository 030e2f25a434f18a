// Statements about single operations: lost updates, attention scores, and what must stay in FP32.
#include <algorithm>

#include "analysis/claims/claims.hpp"
#include "analysis/experiments/attention_file.hpp"
#include "analysis/experiments/operations.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/round/round_to.hpp"

namespace analysis {
namespace {

using namespace narrow;

// ---- Updates that vanish ----

// Share of the weights of one binade for which w + ratio * w, or w - ratio * w, is w again.
double lost_share(double ratio, const Format& f) {
  std::size_t lost = 0, all = 0;
  const Code one = encode(1.0, f), two = encode(2.0, f);
  const Code stride = std::max<Code>(1, (two - one) / 4096);
  for (Code code = one; code < two; code += stride, all += 2) {
    const double w = decode(code, f);
    lost += round_to(w + ratio * w, f) == w, lost += round_to(w - ratio * w, f) == w;
  }
  return static_cast<double>(lost) / static_cast<double>(all);
}

// The largest power of two at which every update is lost, and the largest at which one is.
struct Thresholds {
  int always = 0, sometimes = 0;
};
Thresholds thresholds_of(const Format& f) {
  Thresholds t;
  for (int k = -40; k < 0; ++k) {
    const double lost = lost_share(std::ldexp(1.0, k), f);
    if (lost == 1) t.always = k;
    if (lost > 0) t.sometimes = k;
  }
  return t;
}

// True for six orders of magnitude; but is six where it starts?
Measurement vanishing_update(const Study&) {
  const Thresholds coarse = thresholds_of(bf16), half = thresholds_of(fp16);
  const bool lost = lost_share(1e-6, bf16) == 1;
  const double orders = -std::log10(std::ldexp(1.0, coarse.always));
  return {"1e-6 of a weight is lost in BF16 for " + share(lost_share(1e-6, bf16)) +
              " of the weights; every update is lost from 2^" + std::to_string(coarse.always) + " (" +
              fixed_text(orders, 1) + " orders) down, some from 2^" + std::to_string(coarse.sometimes) +
              "; in FP16 from 2^" + std::to_string(half.always) + " and 2^" + std::to_string(half.sometimes),
          judge_parts(lost + (judge_number(6, orders, 1) == Verdict::holds), 2)};
}

// ---- Attention ----

// Length alone, then the size of queries and keys.
Measurement scores_overflow(const Study& study) {
  constexpr double d = 128, longest = 1 << 20;
  const double by_length = saddle_maximum(longest, d), sigma = std::sqrt(fp16_overflows_from / saddle_maximum(4096, d));
  double recorded = 0;
  for (const TrainingLog& log : study.logs)
    for (const double s : log.score_amax)
      if (std::isfinite(s)) recorded = std::max(recorded, s);
  std::string at_size;
  for (const char* name : {"bf16-amp", "bf16-amp-rate0.006"})
    if (const RecordedRun* large = find_run(study.large, name)) {
      double most = 0;
      WatchedRun(large->folder).for_each_tensor([&](const WatchedTensor& t) {
        if (t.role == "score") most = std::max(most, t.amax);
      });
      if (most > 0)
        at_size += "; " + large->name + " " + large->size_text() + " up to " + digits(most) + ", scaled by 1/sqrt(d)";
    }
  // With a spread of 32 in q and k the scores are 32^2 times larger.
  const double by_size = 32.0 * 32.0 * saddle_maximum(4096, d);
  return {"standard normal q and k, d = 128: the largest score is " + digits(saddle_maximum(4096, d)) +
              " at length 4096 and " + digits(by_length) + " at a million; 65504 takes a standard deviation of " +
              digits(sigma) + " in both" + (recorded > 0 ? "; the recorded GPT reaches " + digits(recorded) : "") +
              at_size,
          judge_parts((by_length >= fp16_overflows_from) + (by_size >= fp16_overflows_from), 2)};
}

// One head of the recorded model, or a made one.
std::vector<Head> heads() {
  const std::optional<std::string> path = find_data("torch/step300.safetensors");
  return {path ? read_attention({*path}).layers.at(0).heads.at(0) : made_heads(1).at(0)};
}

// 16 bits are enough where no probability is off by more than 1 % and no row is NaN.
constexpr double enough = 0.01;

Measurement attention_in_fp32(const Study&) {
  const std::vector<Head> one = heads();
  const double largest = scores_of(one[0]).seen;
  if (!(largest > 0 && std::isfinite(largest)))
    return {"the scores of the recorded head are all zero, or not finite", Verdict::unmeasured};
  int larger = 0;  // powers of two by which the scores must grow to pass 65504
  while (std::ldexp(largest, larger) < fp16_overflows_from) ++larger;
  std::string text;
  std::size_t cases = 0, failing = 0;
  for (const auto& [name, f] : {std::pair{"FP16", fp16}, {"BF16", bf16}}) {
    const HeldScores held(one, {f, false, AttentionFunction::plain});
    const Damage usual = held.at(0), large = held.at(larger);
    failing += usual.nan_rows > 0 || usual.error > enough, failing += large.nan_rows > 0 || large.error > enough,
        cases += 2;
    text += (text.empty() ? "" : "; ") + std::string(name) + " scores: a probability is off by " + share(usual.error) +
            ", and with scores 2^" + std::to_string(larger) + " times larger " +
            (large.nan_rows > 0 ? share(large.nan_rows) + " of the rows are NaN" : "by " + share(large.error));
  }
  return {text + " (softmax in FP32 throughout)", judge_cases(failing, cases)};
}

// ---- What must stay in FP32 ----

// The first rows of a tensor; nothing where it is not there or its rows are not as long.
Numbers rows_of(const std::vector<Values>& all, const char* name, std::size_t rows, std::size_t cols) {
  const Values* v = find_values(all, name);
  if (v == nullptr || v->cols != cols) return {};
  return {v->data.begin(), v->data.begin() + static_cast<std::ptrdiff_t>(std::min(rows, v->rows) * v->cols)};
}

Measurement must_stay_wide(const Study&) {
  const std::optional<std::string> path = find_data("torch/step300.safetensors");
  if (!path) return not_measured_without("torch/step300.safetensors");
  const std::vector<Values> all = read_values_of(*path);
  constexpr std::size_t rows = 32, cols = 256;
  const Numbers logits = rows_of(all, "act.head", rows, cols),
                residual = rows_of(all, "act.blocks.3.residual", rows, cols),
                inputs = rows_of(all, "act.blocks.3.ln2", rows, cols),
                weights = rows_of(all, "weight.blocks.3.up.weight", rows, cols);
  if (logits.empty() || residual.empty() || inputs.empty() || weights.empty())
    return not_measured_without("torch/step300.safetensors");
  const Numbers probabilities = softmax_of(logits, cols, {});
  struct Operation {
    const char* name;
    Numbers (*run)(const Numbers&, const Rounder&);
    const Numbers* on;
  };
  const Operation operations[] = {
      {"softmax", [](const Numbers& x, const Rounder& r) { return softmax_of(x, cols, r); }, &logits},
      {"LayerNorm", [](const Numbers& x, const Rounder& r) { return layer_norm_of(x, cols, r); }, &residual},
      {"log", [](const Numbers& x, const Rounder& r) { return log_of(x, r); }, &probabilities},
      {"exp", [](const Numbers& x, const Rounder& r) { return exp_of(x, r); }, &logits},
      {"loss", [](const Numbers& x, const Rounder& r) { return cross_entropy_of(x, cols, r); }, &logits}};
  const auto product = [&](const Format& f) {
    return error_of(matmul_of(inputs, weights, cols, &f, false), matmul_of(inputs, weights, cols, nullptr, false))
        .relative;
  };
  const double half = product(fp16), coarse = product(bf16);
  std::string text = "relative error in FP16 and BF16: product " + share(half) + ", " + share(coarse);
  std::size_t needed = 0;
  for (const Operation& o : operations) {
    const Numbers exact = o.run(*o.on, {});
    const OperationError a = error_of(o.run(*o.on, {&fp16}), exact), b = error_of(o.run(*o.on, {&bf16}), exact);
    needed +=
        a.not_finite > 0 || b.not_finite > 0 || a.relative > needs_factor * half || b.relative > needs_factor * coarse;
    const auto lost = [](const OperationError& e) {
      return e.not_finite > 0 ? share(e.not_finite) + " Inf" : share(e.relative);
    };
    text += "; " + std::string(o.name) + " " + lost(a) + ", " + lost(b);
  }
  return {text + "; more than ten times a product's: " + std::to_string(needed) + " of " +
              std::to_string(std::size(operations)),
          judge_parts(needed, std::size(operations))};
}

}  // namespace

Claims operation_claims() {
  return {
      {16, "002", "An update six orders of magnitude smaller than the weight vanishes in BF16.", vanishing_update,
       "narrow run master_weights -o out --show"},
      {19, "004", "Attention scores pass 65504 with long sequences or with bad scaling.", scores_overflow,
       "narrow run attention_overflow -o out --show"},
      {20, "000, 001", "Softmax, LayerNorm, log, exp and the loss must stay in FP32.", must_stay_wide,
       "narrow run operation_policy -o out --show"},
      {21, "003, 001", "The products of attention need FP32 (one text); 16 bits are enough (another).",
       attention_in_fp32, "narrow run attention_overflow -o out --show"},
  };
}

}  // namespace analysis
