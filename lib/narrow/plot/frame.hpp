// The drawing area of a panel: from the units of its axes to pixels.
#pragma once

#include <cmath>

#include "narrow/plot/scene.hpp"
#include "narrow/plot/ticks.hpp"

namespace narrow::plot {

struct Frame {
  ReadyAxis x, y;
  Box area;
  bool y_down = false;  // categories on y are read from the top

  double px(double value) const { return area.left + x.part(value) * area.width(); }
  double py(double value) const {
    const double part = y.part(value);
    return y_down ? area.top + part * area.height() : area.bottom - part * area.height();
  }
  Point at(double vx, double vy) const { return {px(vx), py(vy)}; }
  bool holds(const Point& p) const {  // false for what is not finite
    constexpr double rim = 0.5;
    return p.x >= area.left - rim && p.x <= area.right + rim && p.y >= area.top - rim && p.y <= area.bottom + rim;
  }
};

constexpr Role role_of(PlotColour colour) {
  // The enumerators of Role start with those of PlotColour but `automatic`.
  return colour == PlotColour::automatic ? Role::blue : static_cast<Role>(static_cast<int>(colour) - 1);
}
static_assert(role_of(PlotColour::ink) == Role::ink && role_of(PlotColour::blue) == Role::blue);

}  // namespace narrow::plot
