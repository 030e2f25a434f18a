// From the numbers of an axis to places along it: range, ticks and their texts.
#pragma once

#include <string>
#include <vector>

#include "narrow/report/plot.hpp"

namespace narrow::plot {

using namespace report;  // what is drawn is said there

// An axis that is ready to draw: every scale is linear in its coordinate (log axes in the logarithm).
struct ReadyAxis {
  AxisScale scale = AxisScale::linear;
  double low = 0, high = 1;  // coordinates
  std::vector<Tick> ticks;   // at coordinates, ascending

  double coordinate(double value) const;  // not finite where the scale has no place for it
  double part(double value) const { return (coordinate(value) - low) / (high - low); }  // 0 to 1 inside of the range
};

// What the axis leaves around the data: a little room; room, and bars that stand on zero; nothing (lines from edge to
// edge).
enum class Around : std::uint8_t { room, stand, tight };

// values: all that must be seen, in the units of the axis.
// most_ticks: how many texts have room.
ReadyAxis ready_axis(const Axis& axis, const std::vector<double>& values, Around around, int most_ticks);

}  // namespace narrow::plot
