#include "narrow/scale/delayed_scaling.hpp"

#include "narrow/base/error.hpp"

namespace narrow {

namespace {

// The larger number; a NaN (also a signalling one, which fmax lets through) never wins against `known`.
float larger(float known, float next) { return next > known ? next : known; }

// TE's window has `history` rows: the newest and history - 1 before it.
void remember(DelayedState& s, float amax, std::size_t kept) {
  if (kept == 0) return;
  if (s.history.size() < kept) {
    s.history.push_back(amax);
    s.window_max = larger(s.window_max, amax);
    return;
  }
  const float leaving = s.history[s.oldest];
  s.history[s.oldest] = amax;
  s.oldest = (s.oldest + 1) % kept;
  s.window_max = larger(s.window_max, amax);
  if (leaving < s.window_max) return;
  s.window_max = 0;
  for (const float a : s.history) s.window_max = larger(s.window_max, a);
}

}  // namespace

void check(const TeDelayedScaling& p) {
  constexpr std::int64_t largest_margin = 127, largest_history = std::int64_t{1} << 24;
  if (p.margin > largest_margin)
    throw Error("te-delayed: margin " + std::to_string(p.margin) + " is above " + std::to_string(largest_margin));
  if (p.history > largest_history) throw Error("te-delayed: history " + std::to_string(p.history) + " is above 2^24");
}

DelayedState next(const TeDelayedScaling& p, DelayedState s, const Observation& seen) {
  s.event = ScaleEvent::none;
  if (seen.amax == 0) return s;
  const float amax = p.most_recent ? seen.amax : larger(s.window_max, seen.amax);
  if (std::isfinite(amax) && amax > 0) {
    const float before = s.scale, scaled_max = std::ldexp(detail::to_float(p.fp8_max), -static_cast<int>(p.margin));
    s.scale = scaled_max / amax;
    if (std::isinf(s.scale)) s.scale = detail::float_max;
    if (s.scale != before) s.event = s.scale > before ? ScaleEvent::grew : ScaleEvent::backed_off;
  }
  remember(s, seen.amax, static_cast<std::size_t>(p.history - 1));
  return s;
}

std::string to_text(const DelayedState& s) {
  return "scale " + detail::scale_text(static_cast<double>(s.scale)) + ", history of " +
         std::to_string(s.history.size()) + " with max " + detail::scale_text(static_cast<double>(s.window_max));
}

}  // namespace narrow
