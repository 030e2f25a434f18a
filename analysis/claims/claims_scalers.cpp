// Statements about loss scalers: their rule, how they fail, and what their failure means.
#include <algorithm>
#include <limits>
#include <set>

#include "analysis/claims/claims.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/scale/trace.hpp"
#include "narrow/train/run/trainer.hpp"

namespace analysis {
namespace {

using namespace narrow;

constexpr const char* frameworks[] = {"torch", "apex", "keras", "fairseq", "megatron", "deepspeed"};

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

// One overflow halves the scale at once, and exactly the documented number of good steps doubles it.
bool follows_the_rule(const char* framework) {
  const NamedScaler named = make_scaler(framework);
  const float start = named.scaler->scale();
  const std::unique_ptr<Scaler> hit = named.scaler->clone(), good = named.scaler->clone();
  hit->observe({true, 0});
  const auto interval = static_cast<std::int64_t>(named.row->find("growth-interval")->initial);
  for (std::int64_t i = 0; i + 1 < interval; ++i) good->observe({false, 0});
  const bool waits = good->scale() == start;
  good->observe({false, 0});
  return hit->scale() == start / 2 && waits && good->scale() == 2 * start;
}

// Steps whose recorded scale is that of the rule when it is told which steps overflowed.
std::size_t predicted_scales(const TrainingLog& log) {
  const NamedScaler rule = make_scaler("torch:init=" + significant_text(log.init_scale, 17) +
                                       ":growth-interval=" + std::to_string(log.growth_interval));
  std::size_t equal = 0;
  for (std::size_t i = 0; i < log.scale.size(); ++i) {
    equal += static_cast<double>(rule.scaler->scale()) == log.scale[i];
    rule.scaler->observe({log.found_inf[i] != 0, 0});
  }
  return equal;
}

Measurement dynamic_rule(const Study& study) {
  std::vector<std::string> follow, differ;
  for (const char* framework : frameworks) (follows_the_rule(framework) ? follow : differ).emplace_back(framework);
  std::size_t equal = 0, steps = 0;
  for (const TrainingLog& log : study.logs)
    if (log.init_scale > 0) equal += predicted_scales(log), steps += log.scale.size();
  std::string text =
      "just this: " + list_of(follow) + "; with hysteresis, another count or no such growth: " + list_of(differ);
  if (steps > 0)
    text +=
        "; the rule gives " + std::to_string(equal) + " of " + std::to_string(steps) + " recorded scales of PyTorch";
  return {text, judge_cases(follow.size(), std::size(frameworks))};
}

// A good run whose gradients are NaN for 200 steps, then good again: who never steps again, and who steps on NaN?
Measurement bad_schedules(const Study&) {
  GradientLog log;
  for (int i = 0; i < 3000; ++i) {
    log.steps.push_back(i);
    log.amax.push_back(i >= 200 && i < 400 ? std::numeric_limits<float>::quiet_NaN() : 0.01f);
  }
  const OverflowModel model(log);
  std::vector<std::string> lost, ended, fine;
  std::size_t longest = 0;
  for (const char* framework : frameworks) {
    const TraceSummary s = summarise(run_trace(*make_scaler(framework).scaler, model));
    (s.collapsed ? lost : s.ended ? ended : fine).emplace_back(framework);
    longest = std::max(longest, s.longest_skip);
  }
  return {"after 200 steps of broken gradients 1/scale is Inf and later steps are NaN: " + list_of(lost) +
              "; an error ends the run: " + list_of(ended) + "; recovers: " + list_of(fine) + "; up to " +
              std::to_string(longest) + " steps in a row skipped without a word",
          judge_parts((longest >= 200) + !lost.empty(), 2)};
}

// ---- What a falling scale says about the model ----

struct Watched {
  double first = 0, last = 0;  // loss
  double halvings = 0;         // of the loss scale from first to last step
  bool is_unstable() const { return !(last < first); }
};

// Digits with a network that was spoiled before its first step. Where its second layer is 2^18 times smaller, so is the
// learning rate: that layer then learns as before.
Watched watch(const char* recipe, double rate, float stretch, std::uint64_t steps) {
  train::RunRequest request;
  request.recipe = train::require_recipe(recipe);
  const train::TaskSettings usual = train::settings_of(train::Task::digits);
  request.steps = steps, request.optimiser = usual.optimiser;
  request.optimiser->learning_rate *= rate;
  train::Trainer trainer(request);
  // ReLU(c x) = c ReLU(x) for c > 0: the first layer times c and the second divided by c are the same function.
  trainer.step([&](train::Model<float>& model, train::Batch&) {
    const auto parameters = model.parameters();
    for (train::Parameter<float>* p : parameters) {
      if (p->name.starts_with("layers.0."))
        for (float& x : p->value.data) x *= stretch;
      if (p->name == "layers.1.weight")
        for (float& x : p->value.data) x /= stretch;
    }
  });
  while (!trainer.finished()) trainer.step();
  const train::RunResult r = trainer.result();
  return {r.rows.front().loss, r.broke ? train::not_measured : r.final_loss,
          std::log2(static_cast<double>(r.rows.front().scale) / static_cast<double>(r.rows.back().scale))};
}

// Two runs whose scale falls. The statement holds for those that go wrong in FP32 as well.
Measurement falling_scale(const Study&) {
  constexpr std::uint64_t steps = 60;
  constexpr double falls = 10;  // halvings in 60 steps
  struct Case {
    const char* name;
    double rate;
    float stretch;
  };
  constexpr Case cases[] = {{"learning rate x 50000", 5e4, 1},
                            {"activations x 2^18, the same function", 0x1p-18, 0x1p18f}};
  std::string text;
  std::size_t falling = 0, unstable = 0;
  for (const Case& c : cases) {
    const Watched half = watch("fp16-amp", c.rate, c.stretch, steps), wide = watch("fp32", c.rate, c.stretch, steps);
    text += (text.empty() ? "" : "; ") + std::string(c.name) + ": the FP16 scale halves " +
            fixed_text(half.halvings, 0) + " times in " + std::to_string(steps) + " steps, the FP32 loss goes from " +
            digits(wide.first, 2) + " to " + digits(wide.last, 2);
    if (half.halvings < falls) continue;
    ++falling, unstable += wide.is_unstable();
  }
  return {text, falling == 0 ? Verdict::unmeasured : judge_cases(unstable, falling)};
}

// ---- Bad initial scales, recorded ----

constexpr std::size_t first_steps = 20, late = 400;  // what a log must have to be judged by its start, or by its loss

std::ptrdiff_t early_infs(const TrainingLog& log) {
  return std::count(log.found_inf.begin(), log.found_inf.begin() + first_steps, 1);
}

double loss_at(const TrainingLog& log, std::size_t end) {
  double sum = 0;
  for (std::size_t i = end - 20; i < end; ++i) sum += log.loss[i];
  return sum / 20;
}

Measurement early_nan(const Study& study) {
  const TrainingLog *high = find_log(study.logs, "fp16 from 2^30", first_steps),
                    *low = find_log(study.logs, "fp16 from 2^-10", late), *coarse = find_log(study.logs, "bf16", late),
                    *wide = find_log(study.logs, "fp32", late);
  if (high == nullptr || low == nullptr || coarse == nullptr || wide == nullptr)
    return not_measured_without("torch/logs.json");
  const auto skipped = std::count(high->found_inf.begin(), high->found_inf.end(), 1);
  const bool optional = loss_at(*coarse, coarse->loss.size()) < 1.01 * loss_at(*wide, wide->loss.size());
  return {"from 2^30: " + std::to_string(skipped) + " steps with Inf; from 2^-10: " +
              std::to_string(std::count(low->found_inf.begin(), low->found_inf.end(), 1)) + ", but a loss of " +
              digits(loss_at(*low, late)) + " at step 400 against " + digits(loss_at(*wide, late)) +
              "; BF16 without a scaler ends at " + digits(loss_at(*coarse, coarse->loss.size()), 4) + ", FP32 at " +
              digits(loss_at(*wide, wide->loss.size()), 4),
          judge_parts(optional + (early_infs(*high) > 0) + (early_infs(*low) > 0), 3)};
}

// Underflow gives zeros. Does any Inf or NaN come from it?
Measurement nan_from_underflow(const Study& study) {
  const TrainingLog *lost = find_log(study.logs, "fp16 without scaling", late),
                    *low = find_log(study.logs, "fp16 from 2^-10", late);
  if (lost == nullptr || low == nullptr) return not_measured_without("torch/logs.json");
  std::size_t bad = 0, steps = 0;
  for (const TrainingLog* log : {lost, low}) {
    steps += log->loss.size();
    for (std::size_t i = 0; i < log->loss.size(); ++i) bad += !std::isfinite(log->loss[i]) || log->found_inf[i] != 0;
  }
  std::string what = "two recorded FP16 runs whose gradients underflow (no scale; a scale of 2^-10)";
  for (const char* name : {"fp16-amp-noscale", "fp16-amp-2^4"})
    if (const RecordedRun* large = find_run(study.large, name)) {
      steps += large->losses.size();
      std::set<std::int64_t> broken;
      for (const WatchedLoss& l : large->losses)
        if (!std::isfinite(l.loss)) broken.insert(l.step);
      if (large->scaler)
        for (std::size_t i = 0; i < large->scaler->log.found_inf.size(); ++i)
          if (large->scaler->log.found_inf[i] == 1) broken.insert(large->scaler->log.steps[i]);
      bad += broken.size();
      what += ", " + large->name + " " + large->size_text() + " (from a loss of " + digits(large->losses.front().loss) +
              " to " + digits(large->final_loss()) + ")";
    }
  return {what + ": Inf or NaN in " + std::to_string(bad) + " of " + std::to_string(steps) + " steps",
          judge_parts(bad > 0, 1)};
}

// The loss itself in FP16, times 2^15.
Measurement scaled_loss_in_fp16(const Study& study) {
  double loss = std::log(256.0);
  std::string what = "a byte model that knows nothing";
  if (const TrainingLog* log = find_log(study.logs, "fp16"); log != nullptr)
    loss = log->loss.front(), what = "the recorded GPT at its first step";
  double most = 0;  // the largest loss that survives
  for (Code code = 0; code <= fp16.max_magnitude(); ++code)
    if (std::isfinite(round_to(std::ldexp(decode(code, fp16), 15), fp16))) most = decode(code, fp16);
  const double scaled = round_to(std::ldexp(round_to(loss, fp16), 15), fp16);
  return {"a loss above " + digits(most, 4) + " times 2^15 is Inf in FP16; " + what + " has " + digits(loss) +
              ", scaled: " + (std::isfinite(scaled) ? digits(scaled, 5) : "Inf"),
          judge_parts(std::isfinite(scaled), 1)};
}

// Starts from below, at and above what the gradients bear.
Measurement first_steps_skipped(const Study& study) {
  std::string text;
  std::size_t cases = 0, skipping = 0;
  for (const char* name : {"fp16", "fp16 interval 20", "fp16 from 2^30", "fp16 from 2^0", "fp16 from 2^-10"})
    if (const TrainingLog* log = find_log(study.logs, name, first_steps); log != nullptr) {
      const auto skipped = early_infs(*log);
      text += (text.empty() ? "" : ", ") + power_text(log->init_scale) +
              (log->growth_interval == 20 ? " (interval 20)" : "") + ": " + std::to_string(skipped);
      ++cases, skipping += skipped > 0;
    }
  for (const char* name : {"fp16-amp", "fp16-amp-2^4", "fp16-amp-2^30"})
    if (const RecordedRun* large = find_run(study.large, name);
        large != nullptr && large->scaler && large->scaler->log.found_inf.size() >= first_steps) {
      const GradientLog& log = large->scaler->log;
      const auto skipped = std::count(log.found_inf.begin(), log.found_inf.begin() + first_steps, 1);
      text += (text.empty() ? "" : ", ") + power_text(static_cast<double>(log.scale.front())) + " " +
              large->size_text() + ": " + std::to_string(skipped);
      ++cases, skipping += skipped > 0;
    }
  if (cases == 0) return not_measured_without("torch/logs.json");
  return {"skipped among the first 20 steps, by initial scale: " + text, judge_cases(skipping, cases)};
}

}  // namespace

Claims scaler_claims() {
  const std::string trace =
      "narrow scale-trace --gradients data/torch/step300.safetensors --model spikes --explain --policy ";
  return {
      {11, "002, 004", "A dynamic scaler starts high, halves on every overflow and doubles after N good steps.",
       dynamic_rule, trace + "torch,apex,megatron,deepspeed"},
      {12, "002", "A bad schedule of the scale stalls training silently or ends in NaN.", bad_schedules,
       "narrow run loss_scaling -o out --show"},
      {13, "001", "A scale that keeps falling means that the model is unstable in any precision.", falling_scale,
       "narrow run claims -o out --show"},
      {27, "000", "A scaler is optional with BF16; early NaN means that the scale is too high, or too low.", early_nan,
       "narrow run loss_scaling -o out --show"},
      {33, "000", "NaN gradients in FP16 typically come from underflow.", nan_from_underflow,
       "narrow train --task digits --recipe fp16-amp-noscale -o out"},
      {34, "003", "The loss can be held in FP16 and multiplied by 2^15.", scaled_loss_in_fp16,
       "narrow show 65504 181600 --formats fp16 --explain"},
      {35, "001", "The first few steps are skipped while the scaler looks for its range.", first_steps_skipped,
       trace + "torch"},
  };
}

}  // namespace analysis
