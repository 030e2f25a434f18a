#include "narrow/scale/overflow_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "narrow/base/error.hpp"

namespace narrow {

namespace {

// From here on a float rounds (to nearest even) to FP16's Inf: 65504 plus half of its quantum.
constexpr float fp16_overflow = 65520.0f;
constexpr float infinity = std::numeric_limits<float>::infinity();

}  // namespace

std::string_view describe(OverflowBasis basis) {
  switch (basis) {
    case OverflowBasis::amax: return "exact: a step overflows when FP16(amax * scale) is Inf";
    case OverflowBasis::recorded_scale:
      return "exact where the recorded step decides (an overflow stays one at larger scales, a good step stays good at "
             "smaller ones); between the two estimated from the nearest recorded step of the other kind";
    case OverflowBasis::recorded_only:
      return "the recorded found_inf for every scale: exact for the policy that recorded it only";
  }
  return "";
}

OverflowModel::OverflowModel(GradientLog log) : log_(std::move(log)) {
  const std::size_t n = log_.steps.size();
  const auto fits = [&](std::size_t size) { return size == 0 || size == n; };
  if (n == 0) throw Error("the log has no steps");
  if (!fits(log_.amax.size()) || !fits(log_.found_inf.size()) || !fits(log_.scale.size()))
    throw Error("the columns of the log differ in length");
  if (log_.amax.empty() && log_.found_inf.empty()) throw Error("the log has neither amax nor found_inf");
  basis_ = !log_.amax.empty()   ? OverflowBasis::amax
           : log_.scale.empty() ? OverflowBasis::recorded_only
                                : OverflowBasis::recorded_scale;
  if (basis_ != OverflowBasis::recorded_scale) return;
  good_up_to_.resize(n);
  overflow_from_.resize(n);
  for (std::size_t begin = 0; begin < n;) {
    std::size_t end = begin;
    while (end < n && log_.found_inf[end] == log_.found_inf[begin]) ++end;
    bracket_run(begin, end);
    begin = end;
  }
}

// Steps [begin, end) are all of one kind; the nearest of the other kind are begin - 1 and end. The bracket of a step is
// its own scale on the one side and, on the other, that of its nearest neighbour of the other kind, narrowed by the
// steps on the way there:
//   overflow at 2^24, 2^23, ... 2^18, then good at 2^17:  the first step is believed to overflow from 2^18 on
// A neighbour that contradicts the step (the gradients have changed) says nothing; then the limit is a factor of two
// away.
void OverflowModel::bracket_run(std::size_t begin, std::size_t end) {
  const bool overflow = log_.found_inf[begin] != 0;
  const std::size_t n = log_.steps.size();
  const auto tighter = [&](float a, float b) { return overflow ? std::min(a, b) : std::max(a, b); };
  std::vector<float> from_left(end - begin),
      from_right(end - begin);  // tightest of the run up to a step, from each side
  for (std::size_t i = begin; i < end; ++i)
    from_left[i - begin] = i == begin ? log_.scale[i] : tighter(from_left[i - begin - 1], log_.scale[i]);
  for (std::size_t i = end; i-- > begin;)
    from_right[i - begin] = i + 1 == end ? log_.scale[i] : tighter(from_right[i - begin + 1], log_.scale[i]);
  for (std::size_t i = begin; i < end; ++i) {
    const bool has_left = begin > 0, has_right = end < n;
    const bool take_left = has_left && (!has_right || i - (begin - 1) <= end - i);
    float own = log_.scale[i], other = overflow ? 0 : infinity;
    if (has_left || has_right) {
      other = log_.scale[take_left ? begin - 1 : end];
      own = tighter(own, take_left ? from_left[i - begin] : from_right[i - begin]);
      if (overflow ? other >= own : other <= own) own = log_.scale[i];
      if (overflow ? other >= own : other <= own) other = overflow ? own / 2 : own * 2;
    }
    good_up_to_[i] = overflow ? other : own;
    overflow_from_[i] = overflow ? own : other;
  }
}

OverflowModel::Answer OverflowModel::at(std::size_t step, float scale) const {
  switch (basis_) {
    case OverflowBasis::amax: {
      const float amax = log_.amax[step];
      return {!std::isfinite(amax) || !(amax * scale < fp16_overflow), false};
    }
    case OverflowBasis::recorded_only: return {log_.found_inf[step] != 0, false};
    case OverflowBasis::recorded_scale: break;
  }
  const float recorded = log_.scale[step];
  const bool overflow = log_.found_inf[step] != 0;
  if (overflow ? scale >= recorded : scale <= recorded) return {overflow, false};
  const float good = good_up_to_[step], bad = overflow_from_[step];
  if (scale <= good) return {false, true};
  if (scale >= bad) return {true, true};
  // Strictly between: by the middle of the exponents. (A limit at 0 or Inf is far from everything.)
  const double middle = std::sqrt(static_cast<double>(good)) * std::sqrt(static_cast<double>(bad));
  return {static_cast<double>(scale) > middle, true};
}

}  // namespace narrow
