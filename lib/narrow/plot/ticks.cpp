#include "narrow/plot/ticks.hpp"

#include <algorithm>
#include <cmath>

#include "narrow/report/table.hpp"

namespace narrow::plot {
namespace {

// Beyond it nothing is seen: differences of such numbers must not overflow.
constexpr double largest_coordinate = 1e300;

double to_coordinate(AxisScale scale, double value) {
  if (scale == AxisScale::log2) return value > 0 ? std::log2(value) : NAN;
  if (scale == AxisScale::log10) return value > 0 ? std::log10(value) : NAN;
  return value;
}

// The least of 1, 2, 5 times a power of ten (and 25, 250, ..) that cuts the range into at most `most` parts.
double nice_step(double range, int most) {
  const double least = range / std::max(1, most);
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double m : {1.0, 2.0, 2.5, 5.0}) {
    if (m == 2.5 && power < 9.5) continue;  // 2.5, 5.0, 7.5 takes longer to read than 2, 4, 6
    if (m * power >= least * (1 - 1e-9)) return m * power;
  }
  return 10 * power;
}

// The least of 1, 2, 4, 8, .. that is at least `least`: steps between powers of two that people know.
int nice_whole_step(double least) {
  for (const int step : {1, 2, 4, 8, 16, 24, 32, 64, 128, 256, 512})
    if (step >= least - 1e-9) return step;
  return 1024;
}

// Digits after the point that tell multiples of the step apart.
int decimals_of(double step) {
  int decimals = 0;
  while (decimals < 12 && std::fabs(step - std::round(step)) > 1e-6 * step) step *= 10, ++decimals;
  return decimals;
}

std::string linear_text(double at, double step, double largest) {
  if (largest >= 1e6 || (step > 0 && step < 1e-4)) return significant_text(at, 3);
  const Column column = fixed_column("", "", decimals_of(step));
  return shown_text(column, at);
}

void linear_ticks(ReadyAxis& axis, int most) {
  const double step = nice_step(axis.high - axis.low, most);
  const double largest = std::max(std::fabs(axis.low), std::fabs(axis.high));
  const double first = std::ceil(axis.low / step - 1e-6);
  for (int i = 0; i <= 2 * most && (first + i) * step <= axis.high + 1e-6 * step; ++i)
    axis.ticks.push_back({(first + i) * step, linear_text((first + i) * step, step, largest)});
}

std::string power_of_two(int k, bool plain) {
  return plain ? count_text(static_cast<std::int64_t>(1) << k) : "2^" + std::to_string(k);
}

// Powers of two, evenly; as numbers (512, 2,048) where all of them are small and whole.
void power_ticks(ReadyAxis& axis, int most) {
  if (!(std::fabs(axis.low) < 1e5 && std::fabs(axis.high) < 1e5)) return;  // no exponent of any number format
  const int step = nice_whole_step((axis.high - axis.low) / std::max(1, most));
  const bool plain = axis.scale == AxisScale::log2 && axis.low > -0.5 && axis.high < 17.5;
  const int first = static_cast<int>(std::ceil(axis.low / step - 1e-6)) * step;
  for (int k = first; k <= axis.high + 1e-6; k += step) axis.ticks.push_back({double(k), power_of_two(k, plain)});
}

std::string decimal_power_text(double value, int k, bool plain) {
  if (plain)
    return significant_text(value, 1).find('e') == std::string::npos && value >= 1000
               ? count_text(static_cast<std::int64_t>(std::llround(value)))
               : significant_text(value, 1);
  return "10^" + std::to_string(k);
}

// Powers of ten; between them 2 and 5 where the range is short.
void decade_ticks(ReadyAxis& axis, int most) {
  const double range = axis.high - axis.low;
  const bool plain = axis.low > -3.2 && axis.high < 5.2;
  const bool fill = range < 2.2 && plain;
  const int step = std::max(1, static_cast<int>(std::ceil(range / std::max(1, most) - 1e-9)));
  for (int k = static_cast<int>(std::floor(axis.low)); k <= axis.high + 1; ++k) {
    if (k % step != 0) continue;
    for (const double m : {1.0, 2.0, 5.0}) {
      if (m > 1 && !fill) break;
      const double at = k + std::log10(m);
      if (at < axis.low - 1e-6 || at > axis.high + 1e-6) continue;
      axis.ticks.push_back({at, decimal_power_text(m * std::pow(10, k), k, plain)});
    }
  }
}

struct Extent {
  double low = INFINITY, high = -INFINITY;
  bool is_empty() const { return !(low <= high); }
};

Extent extent_of(AxisScale scale, const std::vector<double>& values) {
  Extent e;
  for (const double value : values) {
    const double c = to_coordinate(scale, value);
    if (!(std::fabs(c) <= largest_coordinate)) continue;
    e.low = std::min(e.low, c);
    e.high = std::max(e.high, c);
  }
  return e;
}

// Room around the data: a line that touches the frame is hard to read.
void widen(ReadyAxis& axis, const Extent& e, Around around, int most) {
  const bool from_zero = around == Around::stand;
  const bool linear = axis.scale == AxisScale::linear;
  double low = e.low, high = e.high;
  if (from_zero && linear) low = std::min(low, 0.0), high = std::max(high, 0.0);
  // Zero is worth showing when it costs little room.
  if (linear && low > 0 && low < 0.4 * high) low = 0;
  if (low == high) {
    const double room = linear && low != 0 ? 0.1 * std::fabs(low) : 1;
    low -= from_zero && low == 0 ? 0 : room;
    high += room;
  }
  if (around == Around::tight) {
    axis.low = low;
    axis.high = high;
    return;
  }
  const double room = 0.04 * (high - low);
  axis.low = low == 0 && linear ? 0 : low - room;
  axis.high = high == 0 && linear ? 0 : high + room;
  if (!linear || axis.low >= axis.high) return;
  // The last tick above the data when it is near: bars then end under a line of the grid.
  const double step = nice_step(axis.high - axis.low, most);
  const double above = std::ceil(high / step - 1e-9) * step;
  if (high > 0 && above - axis.high < 0.5 * step && above >= high) axis.high = std::max(axis.high, above);
}

}  // namespace

double ReadyAxis::coordinate(double value) const { return to_coordinate(scale, value); }

ReadyAxis ready_axis(const Axis& axis, const std::vector<double>& values, Around around, int most_ticks) {
  ReadyAxis ready;
  ready.scale = axis.scale;
  if (!axis.categories.empty()) {
    ready.scale = AxisScale::linear;
    ready.low = -0.5;
    ready.high = static_cast<double>(axis.categories.size()) - 0.5;
    for (std::size_t k = 0; k < axis.categories.size(); ++k)
      ready.ticks.push_back({static_cast<double>(k), axis.categories[k]});
    return ready;
  }
  const Extent extent = extent_of(axis.scale, values);
  if (!extent.is_empty()) widen(ready, extent, around, most_ticks);
  if (axis.low && std::isfinite(ready.coordinate(*axis.low))) ready.low = ready.coordinate(*axis.low);
  if (axis.high && std::isfinite(ready.coordinate(*axis.high))) ready.high = ready.coordinate(*axis.high);
  if (!(ready.low < ready.high)) ready.high = ready.low + 1;
  if (!axis.ticks.empty()) {
    for (const Tick& tick : axis.ticks) {
      const double at = ready.coordinate(tick.at);
      if (at >= ready.low && at <= ready.high) ready.ticks.push_back({at, tick.text});
    }
    return ready;
  }
  switch (axis.scale) {
    case AxisScale::linear: linear_ticks(ready, most_ticks); break;
    case AxisScale::log10: decade_ticks(ready, most_ticks); break;
    case AxisScale::log2:
    case AxisScale::exponent_of_two: power_ticks(ready, most_ticks); break;
  }
  return ready;
}

}  // namespace narrow::plot
