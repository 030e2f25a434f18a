#include "narrow/train/run/schedule.hpp"

#include <string>

#include "narrow/base/error.hpp"

namespace narrow::train {

namespace {

// cos(pi p) for 0 <= p <= 1 as -sin(x), x = pi (p - 1/2), by its series: |x| <= 1.58, so that the first term left out,
// x^25 / 25!, is below 2^-66. By hand because libm's last bit differs between machines.
double cos_of_pi_times(double p) {
  const double x = 0x1.921fb54442d18p+1 * (p - 0.5), square = x * x;
  double sum = 1;
  for (int k = 23; k > 1; k -= 2) sum = 1 - square / (k * (k - 1)) * sum;
  return -x * sum;
}

}  // namespace

void check(const Schedule& s) {
  if (s.kind != ScheduleKind::constant && s.warmup >= s.length)
    throw Error("a warmup of " + std::to_string(s.warmup) + " leaves nothing to decay of " + std::to_string(s.length) +
                (s.length == 1 ? " step" : " steps"));
}

double rate_factor(const Schedule& s, std::uint64_t count) noexcept {
  if (count < s.warmup) return static_cast<double>(count + 1) / static_cast<double>(s.warmup);
  if (s.kind == ScheduleKind::constant) return 1;
  if (count >= s.length) return 0;
  const double done = static_cast<double>(count - s.warmup) / static_cast<double>(s.length - s.warmup);
  return s.kind == ScheduleKind::linear ? 1 - done : 0.5 * (1 + cos_of_pi_times(done));
}

}  // namespace narrow::train
