// Statements about whole training runs, held against runs that are made here.

#include "analysis/claims/claims.hpp"
#include "analysis/framework/training_runs.hpp"
#include "analysis/recordings/gradients.hpp"
#include "narrow/format/find_format.hpp"

namespace analysis {
namespace {

using namespace narrow;
using train::RunResult;

LossSpread digits_loss(const Study& study, const char* recipe, const char* loss_scaler = "") {
  RunPlan plan{.recipe = recipe, .steps = study.steps};
  plan.loss_scaler = loss_scaler;
  return spread_of(training_runs(over_seeds(plan, study.seeds), *study.progress));
}
LossSpread text_loss(const Study& study, const char* recipe, const char* loss_scaler = "") {
  RunPlan plan = small_lm(recipe, 1, study.lm_steps);
  plan.loss_scaler = loss_scaler;
  return spread_of({&training_run(plan, *study.progress)});
}

std::string loss_text(const LossSpread& s) {
  if (s.broke == s.runs) return "NaN";
  return digits(s.mean, 4) +
         (s.broke > 0 ? " (" + std::to_string(s.broke) + " of " + std::to_string(s.runs) + " broke)" : "");
}

Measurement bf16_is_invisible(const Study& study) {
  const LossSpread wide = digits_loss(study, "fp32"), coarse = digits_loss(study, "bf16-amp");
  std::string text = "digits, " + std::to_string(study.seeds) + " seeds: FP32 " + digits(wide.low, 4) + " to " +
                     digits(wide.high, 4) + ", BF16 " + digits(coarse.low, 4) + " to " + digits(coarse.high, 4);
  std::size_t cases = 1, invisible = is_as_good(coarse, wide);
  constexpr std::size_t window = 50;
  const TrainingLog *a = find_log(study.logs, "fp32", window), *b = find_log(study.logs, "bf16", window);
  if (a != nullptr && b != nullptr) {
    const auto last = [](const TrainingLog& log) {
      double sum = 0;
      for (std::size_t i = log.loss.size() - window; i < log.loss.size(); ++i) sum += log.loss[i] / window;
      return sum;
    };
    ++cases, invisible += last(*b) <= 1.02 * last(*a);
    text += "; GPT recorded: " + digits(last(*a), 5) + " and " + digits(last(*b), 5);
  }
  if (const auto large = at_size(study, "bf16-amp", "tf32")) {
    ++cases, invisible += !large->is_worse;
    text += "; " + large->text;
  }
  return {text, judge_cases(invisible, cases)};
}

// What "pure" leaves out, one by one. The update in FP32 still has FP16 weights: no master copy.
RunResult pure_run(const Study& study, bool wide_update, const char* loss_scaler) {
  train::RunRequest request;
  request.recipe = train::require_recipe("fp16-pure");
  request.recipe.loss_scaler = loss_scaler;
  request.steps = study.steps;
  if (wide_update) request.recipe.policy.training.update = {}, request.recipe.policy.training.optimiser_state = {};
  return train::run_training(request);
}

// A run that diverges breaks, or ends no lower than it began; one that only ends higher than FP32 does not diverge.
Measurement pure_fp16_diverges(const Study& study) {
  const LossSpread wide = digits_loss(study, "fp32"), master = digits_loss(study, "fp16-amp-noscale"),
                   full = digits_loss(study, "fp16-amp");
  struct Case {
    const char* name;
    bool wide_update;
    const char* scaler;
  };
  constexpr Case cases[] = {{"all in FP16", false, "none"},
                            {"the same with a loss scale", false, "torch"},
                            {"FP16 weights, FP32 update", true, "none"},
                            {"the same with a loss scale", true, "torch"}};
  std::string text;
  std::size_t diverged = 0;
  for (const Case& c : cases) {
    const RunResult r = pure_run(study, c.wide_update, c.scaler);
    const LossSpread s = spread_of({&r});
    diverged += r.rows.empty() || s.broke > 0 || !(r.final_loss < r.rows.front().loss);
    text += (text.empty() ? "" : "; ") + std::string(c.name) + " " + loss_text(s);
    if (r.first_nonfinite) text += " (" + r.first_nonfinite->text() + ")";
  }
  std::size_t all = std::size(cases);
  std::string at_size;
  if (const RecordedRun* large = find_run(study.large, "fp16-pure")) {
    ++all, diverged += !(large->final_loss() < large->losses.front().loss);
    at_size = "; a GPT " + large->size_text() + ", all in FP16, " + large->end_text();
  }
  return {"digits, final loss: FP32 " + loss_text(wide) + "; " + text + "; FP32 master weights " + loss_text(master) +
              ", with a loss scale " + loss_text(full) + at_size,
          judge_cases(diverged, all)};
}

// Three parts: recorded gradients vanish without a scale, training is worse, and it ends in NaN.
Measurement fp8_needs_scales(const Study& study) {
  const RecordedPass* pass = study.recording ? find_pass(*study.recording, "step 300") : nullptr;
  if (pass == nullptr) return not_measured_without("torch/histograms.json");
  const double vanished = shares_of(from_pass(*pass).all, "e5m2"_fmt).zero;
  const LossSpread wide = digits_loss(study, "fp32"), none = digits_loss(study, "fp8-noscale"),
                   current = digits_loss(study, "fp8-current"), delayed = digits_loss(study, "fp8-delayed"),
                   block = digits_loss(study, "fp8-block");
  const LossSpread text_wide = text_loss(study, "fp32"), text_none = text_loss(study, "fp8-noscale"),
                   text_current = text_loss(study, "fp8-current");
  const std::optional<AtSize> large = at_size(study, "fp8-noscale", "fp8-current");
  const bool worse = !is_as_good(none, wide) || !is_as_good(text_none, text_wide) || (large && large->is_worse),
             broke = none.broke + text_none.broke > 0 || (large && large->is_nan);
  return {"E5M2 without a scale turns " + share(vanished) + " of the recorded gradients into zero; digits: FP32 " +
              loss_text(wide) + ", no scale " + loss_text(none) + ", current " + loss_text(current) + ", delayed " +
              loss_text(delayed) + ", block " + loss_text(block) + "; text: FP32 " + loss_text(text_wide) +
              ", no scale " + loss_text(text_none) + ", current " + loss_text(text_current) +
              " (values beyond the largest saturate)" + (large ? "; " + large->text : ""),
          judge_parts((vanished > 0.5) + worse + broke, 3)};
}

Measurement fp8_keepers(const Study& study) {
  const LossSpread wide = text_loss(study, "fp32"), base = text_loss(study, "fp8-current");
  std::string text = "text, final loss: FP32 " + loss_text(wide) + ", FP8 " + loss_text(base);
  std::size_t right = is_as_good(base, wide);
  for (const char* keeper : {"norm", "softmax", "residual"}) {
    const LossSpread moved = text_loss(study, (std::string("fp8-current-") + keeper).c_str());
    right += !is_as_good(moved, base);
    text += ", " + std::string(keeper) + " in FP8 too " + loss_text(moved);
  }
  std::size_t parts = 4;
  if (const auto large = at_size(study, "fp8-current", "bf16-amp"))
    ++parts, right += !large->is_worse, text += "; " + large->text;
  for (const char* keeper : {"norm", "softmax", "residual"})
    if (const auto large = at_size(study, std::string("fp8-current-") + keeper, "fp8-current"))
      ++parts, right += large->is_worse, text += "; " + large->text;
  return {text, judge_parts(right, parts)};
}

// Scales of tensors are enough; and a loss scale alone is not.
Measurement fp8_scales_not_loss(const Study& study) {
  const LossSpread wide = text_loss(study, "fp32"), neither = text_loss(study, "fp8-noscale"),
                   loss = text_loss(study, "fp8-noscale", "torch"), tensor = text_loss(study, "fp8-current");
  RunPlan with_both{.recipe = "fp8-current", .steps = study.steps};
  with_both.loss_scaler = "torch";
  const LossSpread plain = digits_loss(study, "fp32"), one = digits_loss(study, "fp8-current"),
                   both = spread_of({&training_run(with_both, *study.progress)});
  const std::optional<AtSize> large = at_size(study, "fp8-current", "bf16-amp");
  return {"text, final loss: FP32 " + loss_text(wide) + ", neither " + loss_text(neither) + ", a loss scale alone " +
              loss_text(loss) + ", tensor scales alone " + loss_text(tensor) + "; digits: tensor scales " +
              loss_text(one) + ", both " + loss_text(both) + ", FP32 " + loss_text(plain) +
              (large ? "; tensor scales alone " + large->text : ""),
          judge_parts(static_cast<std::size_t>(is_as_good(tensor, wide)) + !is_as_good(loss, wide) +
                          (large && !large->is_worse),
                      large ? 3 : 2)};
}

Measurement int8_fails(const Study& study) {
  const LossSpread wide = digits_loss(study, "fp32"), eight = digits_loss(study, "int8");
  const LossSpread text_wide = text_loss(study, "fp32"), text_eight = text_loss(study, "int8");
  const std::optional<AtSize> large = at_size(study, "int8", "bf16-amp");
  return {"two small models, a symmetric scale a tensor in every linear product: digits " + loss_text(eight) +
              " (FP32 " + loss_text(wide) + "), text " + loss_text(text_eight) + " (FP32 " + loss_text(text_wide) +
              ")" + (large ? "; " + large->text : ""),
          judge_failure(static_cast<std::size_t>(!is_as_good(eight, wide)) + !is_as_good(text_eight, text_wide) +
                            (large && large->is_worse),
                        large ? 3 : 2)};
}

}  // namespace

Claims training_claims() {
  const std::string train = "narrow train --task digits -o out --recipe ";
  return {
      {15, "002", "That BF16 has few bits of precision cannot be seen in training.", bf16_is_invisible,
       train + "fp32,bf16-amp"},
      {17, "004", "Training in FP16 alone, without FP32 master weights, diverges for most models.", pure_fp16_diverges,
       train + "fp16-pure,fp16-amp-noscale,fp16-amp"},
      {23, "002, 001", "FP8 needs a scale a tensor; without one the run ends in NaN.", fp8_needs_scales,
       train + "fp8-noscale,fp8-current,fp8-delayed,fp8-block"},
      {24, "002", "FP8 ends at the same loss while LayerNorm, softmax and the residual sum stay wide.", fp8_keepers,
       "narrow run training_recipes -o out --show"},
      {26, "001", "FP8 takes scales of tensors instead of a loss scale.", fp8_scales_not_loss,
       train + "fp8-noscale,fp8-current"},
      {28, "002", "Training with INT8 does not work reliably.", int8_fails, train + "fp32,int8"},
  };
}

}  // namespace analysis
