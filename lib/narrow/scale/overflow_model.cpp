#include "narrow/scale/gradient_log.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "narrow/base/error.hpp"
#include "narrow/base/float_environment.hpp"
#include "narrow/scale/scaler.hpp"

namespace narrow {

namespace {

// From here on a float rounds (to nearest even) to FP16's Inf: 65504 plus half of its quantum.
constexpr float fp16_overflow = 65520.0f;
constexpr float infinity = std::numeric_limits<float>::infinity();

ScaleBounds join(const ScaleBounds& a, const ScaleBounds& b) {
  return {std::max(a.good_up_to, b.good_up_to), std::min(a.overflow_from, b.overflow_from)};
}

}  // namespace

OverflowModel::OverflowModel(GradientLog log) : log_(std::move(log)) {
  const DefaultFloats guard;
  const std::size_t n = log_.steps.size();
  const auto fits = [&](std::size_t size) { return size == 0 || size == n; };
  if (n == 0) throw Error("the log has no steps");
  if (!fits(log_.amax.size()) || !fits(log_.found_inf.size()) || !fits(log_.scale.size()))
    throw Error("the columns of the log differ in length");
  if (log_.amax.empty() && log_.found_inf.empty() && log_.scale.empty())
    throw Error("the log has neither amax nor found_inf nor scale");
  if (log_.amax.empty() && log_.found_inf.empty()) take_found_inf_from_scale();
  for (std::size_t i = n; i-- > 0;) {
    const ScaleBounds amax = bounds_by_amax(i), run = bounds_by_run(i);
    if (amax.good_up_to < run.overflow_from && run.good_up_to < amax.overflow_from) continue;
    ++disagreements_, first_disagreement_ = i;
  }
  build_tree();
}

// Steps that follow each other only: between others much can have happened. The last step has no successor.
void OverflowModel::take_found_inf_from_scale() {
  from_falling_scale_ = true;
  log_.found_inf.assign(log_.steps.size(), GradientLog::not_recorded);
  for (std::size_t i = 0; i + 1 < log_.steps.size(); ++i)
    if (log_.steps[i + 1] == log_.steps[i] + 1) log_.found_inf[i] = log_.scale[i + 1] < log_.scale[i] ? 1 : 0;
}

// The largest float whose product with amax, rounded to float, is below the limit; a search around the quotient.
ScaleBounds OverflowModel::bounds_by_amax(std::size_t step) const {
  if (log_.amax.empty() || log_.amax[step] == GradientLog::no_amax) return {};
  const float amax = log_.amax[step];
  if (!std::isfinite(amax)) return {-1, 0};  // at every scale
  const auto passes = [&](float scale) { return amax * scale < fp16_overflow; };
  float good = std::min(amax == 0 ? infinity : fp16_overflow / amax, std::numeric_limits<float>::max());
  while (!passes(good)) good = std::nextafter(good, 0.0f);
  while (std::isfinite(std::nextafter(good, infinity)) && passes(std::nextafter(good, infinity)))
    good = std::nextafter(good, infinity);
  return {good, std::nextafter(good, infinity)};
}

ScaleBounds OverflowModel::bounds_by_run(std::size_t step) const {
  if (!has_recorded_run() || log_.found_inf[step] == GradientLog::not_recorded) return {};
  if (log_.found_inf[step] != 0) return {-1, log_.scale[step]};
  return log_.is_fp16 ? ScaleBounds{log_.scale[step], infinity} : ScaleBounds{};
}

void OverflowModel::build_tree() {
  while (leaves_ < steps()) leaves_ *= 2;
  tree_.resize(2 * leaves_);
  for (std::size_t i = 0; i < steps(); ++i) {
    tree_[leaves_ + i] = bounds_by_run(i);
    if (disagreements_ == 0) tree_[leaves_ + i] = join(tree_[leaves_ + i], bounds_by_amax(i));
  }
  for (std::size_t node = leaves_; node-- > 1;) tree_[node] = join(tree_[2 * node], tree_[2 * node + 1]);
  known_ = tree_[1];
}

// Up until a sibling on that side decides, then down to its end that is nearer.
std::size_t OverflowModel::nearest(std::size_t step, float scale, bool left) const {
  std::size_t node = leaves_ + step;
  while (node > 1 && !((node % 2 == 1) == left && tree_[node ^ 1].decide(scale))) node /= 2;
  if (node <= 1) return steps();
  for (node ^= 1; node < leaves_;) {
    node = 2 * node + (left ? 1 : 0);
    if (!tree_[node].decide(scale)) node ^= 1;
  }
  return node - leaves_;
}

OverflowModel::Answer OverflowModel::at(std::size_t step, float scale) const {
  if (!std::isfinite(scale)) return {true, Certainty::exact};  // so is every product with it, or NaN
  const ScaleBounds own = tree_[leaves_ + step];
  if (own.decide(scale)) return {scale >= own.overflow_from, Certainty::exact};
  if (disagreements_ != 0)
    if (const ScaleBounds guess = bounds_by_amax(step); guess.decide(scale))
      return {scale >= guess.overflow_from, Certainty::estimated};
  if (!known_.decide(scale)) return {false, Certainty::unknown};
  const std::size_t before = nearest(step, scale, true), after = nearest(step, scale, false);
  const bool take_before = before != steps() && (after == steps() || step - before <= after - step);
  return {scale >= tree_[leaves_ + (take_before ? before : after)].overflow_from, Certainty::estimated};
}

std::string OverflowModel::unknown_region() const {
  const auto text = [](float scale) { return detail::scale_text(static_cast<double>(scale)); };
  const auto [good, overflow] = known_;
  if (std::nextafter(good, infinity) >= overflow || overflow == 0) return "";
  if (good < 0) return std::isinf(overflow) ? "every scale" : "scales below " + text(overflow);
  return std::isinf(overflow) ? "scales above " + text(good)
                              : "scales between " + text(good) + " and " + text(overflow);
}

std::string OverflowModel::describe() const {
  std::string text;
  const auto say = [&](const std::string& sentence) { text += (text.empty() ? "" : "; ") + sentence; };
  const auto count = [&](const auto& holds) {
    std::size_t n = 0;
    for (std::size_t i = 0; i < steps(); ++i) n += holds(i) ? 1 : 0;
    return n;
  };
  const auto some = [&](std::size_t n) { return std::to_string(n) + " of " + std::to_string(steps()) + " steps"; };
  const auto step = [&](std::size_t i) { return "step " + std::to_string(log_.steps[i]); };
  const std::size_t with_amax =
      log_.amax.empty() ? 0 : count([&](std::size_t i) { return log_.amax[i] != GradientLog::no_amax; });

  if (disagreements_ != 0) {
    const bool found = log_.found_inf[first_disagreement_] != 0;
    say("amax and found_inf disagree at " + some(disagreements_) + ", first at " + step(first_disagreement_) + " (" +
        (found ? "found_inf, but FP16(amax * scale) is finite" : "no found_inf, but FP16(amax * scale) is Inf") +
        "): what follows from found_inf is exact, what amax says an estimate");
  } else if (with_amax != 0) {
    say((with_amax == steps() ? "exact" : "exact at the " + some(with_amax) + " with amax") +
        ": a step overflows when FP16(amax * scale) is Inf");
  }
  if (from_falling_scale_)
    say("found_inf is taken from the scale, which falls after an overflow (" +
        some(count([&](std::size_t i) { return log_.found_inf[i] == 1; })) +
        "); hysteresis and a floor of the scale would hide others");
  if (!has_recorded_run() && with_amax == 0)
    say("unknown, for the log has found_inf but not the scale at which it was found");
  if (has_recorded_run() && with_amax != steps()) {
    say("exact where the recorded step decides (an overflow stays one at larger scales, a good step stays good at "
        "smaller ones); else estimated from the nearest step that decides");
    if (!log_.is_fp16) say("the good steps say nothing: the run was not in FP16");
  }
  if (const std::string region = unknown_region(); !region.empty())
    say("unknown at " + region + ", of which no step tells");

  if (!log_.amax.empty())
    if (const std::size_t n = count([&](std::size_t i) { return !std::isfinite(log_.amax[i]); }); n != 0)
      say("amax is Inf or NaN at " + some(n) + ", which overflow at every scale");
  const auto follows = [&](std::size_t i) { return i != 0 && log_.steps[i] == log_.steps[i - 1] + 1; };
  if (count(follows) + 1 != steps()) say("the steps have gaps: the policies count the rows of the log");
  if (has_recorded_run() && !from_falling_scale_)
    if (const std::size_t n = count([&](std::size_t i) {
          return follows(i) && log_.scale[i] < log_.scale[i - 1] && log_.found_inf[i - 1] == 0;
        });
        n != 0)
      say("the recorded scale falls after " + some(n) + " without found_inf");
  return text;
}

}  // namespace narrow
