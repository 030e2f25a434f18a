#include "narrow/plot/bars.hpp"

#include <algorithm>
#include <map>

#include "narrow/plot/text_size.hpp"
#include "narrow/report/table.hpp"

namespace narrow::plot {
namespace {

struct Bar {
  double from, to;     // along the places
  double foot, value;  // along the values
  const Series* series;
  std::size_t index;
  bool is_end;  // the last of its stack
};

// The distance between neighbouring places: all bars are as wide as the closest two allow.
double distance_of_places(const Panel& panel) {
  std::vector<double> places;
  for (const Series& s : panel.series)
    if (s.draw == Draw::bars) places.insert(places.end(), s.x.begin(), s.x.end());
  std::sort(places.begin(), places.end());
  double least = INFINITY;
  for (std::size_t i = 1; i < places.size(); ++i)
    if (places[i] > places[i - 1]) least = std::min(least, places[i] - places[i - 1]);
  return std::isfinite(least) ? least : 1;
}

std::vector<Bar> bars_of(const Panel& panel) {
  std::size_t groups = 0;
  for (const Series& s : panel.series) groups += s.draw == Draw::bars;
  const double width = distance_of_places(panel) * panel.bar_width;
  const bool grouped = panel.bars == BarLayout::grouped;
  const double one = grouped ? width / static_cast<double>(std::max<std::size_t>(groups, 1)) : width;
  std::vector<Bar> bars;
  std::map<double, std::pair<double, std::size_t>> stacks;  // by place: the height so far, the last bar
  std::size_t group = 0;
  for (const Series& s : panel.series) {
    if (s.draw != Draw::bars) continue;
    for (std::size_t i = 0; i < s.x.size(); ++i) {
      const double from = s.x[i] - width / 2 + (grouped ? one * static_cast<double>(group) : 0);
      Bar bar{from, from + one, 0, s.y[i], &s, i, true};
      if (panel.bars == BarLayout::stacked && std::isfinite(s.y[i])) {
        const auto [stack, is_new] = stacks.try_emplace(s.x[i], 0.0, 0);
        if (!is_new) bars[stack->second.second].is_end = false;
        bar.foot = stack->second.first;
        bar.value += bar.foot;
        stack->second = {bar.value, bars.size()};
      }
      bars.push_back(bar);
    }
    ++group;
  }
  return bars;
}

// The foot on a logarithmic axis is its end, because zero has no place there.
double along_values(const ReadyAxis& axis, double value, bool is_foot) {
  if (is_foot && !std::isfinite(axis.coordinate(value))) return 0;
  return std::clamp(axis.part(value), 0.0, 1.0);
}

}  // namespace

bool has_bars(const Panel& panel) {
  return std::any_of(panel.series.begin(), panel.series.end(), [](const Series& s) { return s.draw == Draw::bars; });
}

std::vector<double> bar_ends(const Panel& panel, Along along) {
  std::vector<double> ends;
  const bool places = (along == Along::x) != panel.horizontal;
  for (const Bar& bar : bars_of(panel)) {
    if (places) {
      ends.insert(ends.end(), {bar.from, bar.to});
    } else {
      ends.push_back(bar.value);
      if (!bar.series->high.empty()) ends.push_back(bar.series->high[bar.index]);
    }
  }
  return ends;
}

void draw_bars(const Panel& panel, const Frame& f, std::vector<Shape>& shapes) {
  const bool lying = panel.horizontal;
  const ReadyAxis& values = lying ? f.x : f.y;
  for (const Bar& bar : bars_of(panel)) {
    if (!std::isfinite(bar.value) || (values.scale != AxisScale::linear && bar.value <= 0)) continue;
    const double foot = along_values(values, bar.foot, true), end = along_values(values, bar.value, false);
    const double a = lying ? f.py(bar.from) : f.px(bar.from), b = lying ? f.py(bar.to) : f.px(bar.to);
    // A hair of paper between neighbours where the bars are wide enough for one.
    const double gap = std::fabs(b - a) > 6 ? 0.5 : 0;
    Box box;
    if (lying)
      box = {f.area.left + std::min(foot, end) * f.area.width(), std::min(a, b) + gap,
             f.area.left + std::max(foot, end) * f.area.width(), std::max(a, b) - gap};
    else
      box = {std::min(a, b) + gap, f.area.bottom - std::max(foot, end) * f.area.height(), std::max(a, b) - gap,
             f.area.bottom - std::min(foot, end) * f.area.height()};
    if (box.right < f.area.left || box.left > f.area.right) continue;
    const Series& s = *bar.series;
    if (box.width() > 0 && box.height() > 0) shapes.push_back(RectShape{box, role_of(s.colour), s.faint ? 0.4 : 1});
    const Point tip = lying ? Point{box.right, (box.top + box.bottom) / 2} : Point{(box.left + box.right) / 2, box.top};
    if (!s.low.empty() && !lying) {
      const double low = f.py(s.low[bar.index]), high = f.py(s.high[bar.index]);
      if (std::isfinite(low) && std::isfinite(high))
        for (const auto& [p, q] : {std::pair{Point{tip.x, low}, Point{tip.x, high}},
                                   {Point{tip.x - 3, low}, Point{tip.x + 3, low}},
                                   {Point{tip.x - 3, high}, Point{tip.x + 3, high}}})
          shapes.push_back(LineShape{{p, q}, Role::text, 1.2});
    }
    if (panel.value_digits > 0 && bar.is_end) {
      const std::string text = shown_text(real_column("", "", panel.value_digits), bar.value);
      if (lying) shapes.push_back(TextShape{{tip.x + 6, tip.y}, text, 11.5, Anchor::left, Role::text});
      else if (text_width(text, 11) < box.width())  // else it would run into its neighbour's
        shapes.push_back(TextShape{{tip.x, tip.y - 9}, text, 11, Anchor::middle, Role::text});
    }
  }
}

}  // namespace narrow::plot
