#include "narrow/plot/panel.hpp"

#include <algorithm>

#include "narrow/plot/bars.hpp"
#include "narrow/plot/series.hpp"
#include "narrow/plot/text_size.hpp"
#include "narrow/report/table.hpp"

namespace narrow::plot {
namespace {

constexpr double tick_size = 12, label_size = 12, panel_title_size = 13.5;
constexpr double title_line = 24, label_line = 22, tick_line = 22, ruler_line = 20, ruler_rim = 10,
                 cell_scale_line = 30;

double rulers_height(const Panel& panel) {
  return panel.rulers.empty() ? 0 : 2 * ruler_rim + ruler_line * static_cast<double>(panel.rulers.size());
}

bool has_cells(const Panel& panel) {
  return std::any_of(panel.series.begin(), panel.series.end(), [](const Series& s) { return s.draw == Draw::cells; });
}

double widest(const std::vector<Tick>& ticks) {
  double width = 0;
  for (const Tick& tick : ticks) width = std::max(width, text_width(tick.text, tick_size));
  return width;
}

// The two lines of a text that are the most alike in length.
std::vector<std::string> in_two(const std::string& text) {
  std::size_t best = std::string::npos;
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    const auto distance = [&](std::size_t at) {
      return at > text.size() / 2 ? at - text.size() / 2 : text.size() / 2 - at;
    };
    if (text[i] == ' ' && (best == std::string::npos || distance(i) < distance(best))) best = i;
  }
  if (best == std::string::npos) return {text};
  return {text.substr(0, best), text.substr(best + 1)};
}

CategoryTexts choose_texts(const std::vector<std::string>& names, double room) {
  bool straight = true, two = true;
  for (const std::string& name : names) {
    if (text_width(name, tick_size) > room - 8) straight = false;
    for (const std::string& line : in_two(name))
      if (text_width(line, tick_size) > room - 8) two = false;
  }
  return straight ? CategoryTexts::straight : two ? CategoryTexts::two_lines : CategoryTexts::turned;
}

constexpr double turned_by = 32;  // degrees

double category_height(const Panel& panel, CategoryTexts texts) {
  if (texts == CategoryTexts::straight) return tick_line;
  if (texts == CategoryTexts::two_lines) return tick_line + 15;
  double height = 0;
  for (const std::string& name : panel.x.categories) {
    const Box box = text_box({{0, 0}, name, tick_size, Anchor::right, Role::text, false, false, turned_by});
    height = std::max(height, box.height());
  }
  return height + 12;
}

// Texts of marks and notes keep clear of each other and of the edges: a long one is broken into lines, and a later one
// moves down until it meets nobody.
class Places {
 public:
  explicit Places(const Box& area) : area_(area) {}
  void take(const Box& box) { taken_.push_back(box); }
  void put(const TextShape& text, std::vector<Shape>& shapes) {
    const std::vector<std::string> lines = wrapped(text.text, text.size, area_.width() - 2 * rim);
    const double step = 1.25 * text.size;
    double y = std::min(text.at.y, area_.bottom - rim - step * (static_cast<double>(lines.size()) - 0.5));
    for (const std::string& line : lines) {
      TextShape one = text;
      one.text = line;
      one.at.y = y;
      const Box box = text_box(one);
      one.at.x += std::max(0.0, area_.left + rim - box.left) - std::max(0.0, box.right - area_.right + rim);
      for (int tries = 0; tries < 12 && is_taken(one); ++tries) one.at.y += 4;
      if (text_box(one).bottom > area_.bottom) one.at.y = y;
      take(text_box(one));
      y = one.at.y + step;
      shapes.push_back(std::move(one));
    }
  }

 private:
  static constexpr double rim = 3;
  bool is_taken(const TextShape& text) const {
    const Box box = text_box(text);
    return std::any_of(taken_.begin(), taken_.end(), [&](const Box& other) { return other.meets(box); });
  }
  Box area_;
  std::vector<Box> taken_;
};

void draw_grid(const Panel& panel, const Frame& f, double foot, std::vector<Shape>& shapes) {
  const Box& a = f.area;
  if (has_cells(panel)) return;
  const bool y_names = !panel.y.categories.empty();
  if (!y_names)
    for (const Tick& tick : f.y.ticks) {
      const double y = a.bottom - (tick.at - f.y.low) / (f.y.high - f.y.low) * a.height();
      shapes.push_back(LineShape{{{a.left, y}, {a.right, y}}, Role::grid, 1});
    }
  // Upright lines help where values are read off x: lying bars, places on y, logarithms, scatter.
  const bool upright = y_names || (panel.x.categories.empty() && !has_bars(panel));
  if (upright)
    for (const Tick& tick : f.x.ticks) {
      const double x = a.left + (tick.at - f.x.low) / (f.x.high - f.x.low) * a.width();
      shapes.push_back(LineShape{{{x, a.top}, {x, a.bottom}}, Role::grid, 1});
    }
  if (!y_names || !panel.horizontal) shapes.push_back(LineShape{{{a.left, foot}, {a.right, foot}}, Role::axis, 1});
  if (panel.horizontal) shapes.push_back(LineShape{{{a.left, a.top}, {a.left, a.bottom}}, Role::axis, 1});
}

void draw_x_texts(const Panel& panel, const PanelPlan& plan, const Frame& f, double foot, std::vector<Shape>& shapes) {
  const bool names = !panel.x.categories.empty(), bare = has_cells(panel) || panel.horizontal;
  for (const Tick& tick : f.x.ticks) {
    const double x = f.area.left + (tick.at - f.x.low) / (f.x.high - f.x.low) * f.area.width();
    if (!names && !bare) shapes.push_back(LineShape{{{x, foot}, {x, foot + 4}}, Role::axis, 1});
    const double y = foot + tick_line / 2 + 3;
    if (names && plan.x_texts == CategoryTexts::turned) {
      shapes.push_back(
          TextShape{{x + 4, foot + 10}, tick.text, tick_size, Anchor::right, Role::text, false, false, turned_by});
    } else if (names && plan.x_texts == CategoryTexts::two_lines) {
      double line = y;
      for (const std::string& part : in_two(tick.text)) {
        shapes.push_back(TextShape{{x, line}, part, tick_size, Anchor::middle, Role::text});
        line += 15;
      }
    } else {
      shapes.push_back(TextShape{{x, y}, tick.text, tick_size, Anchor::middle, Role::text});
    }
  }
  const std::string label = axis_text(panel.x);
  const double ticks = names ? category_height(panel, plan.x_texts) : tick_line;
  if (!label.empty())
    shapes.push_back(TextShape{{(f.area.left + f.area.right) / 2, foot + ticks + label_line / 2},
                               label,
                               label_size,
                               Anchor::middle,
                               Role::muted});
}

double y_label_height(const PanelPlan& plan) {
  return plan.y_label.empty() ? 0 : label_line + 15 * static_cast<double>(plan.y_label.size() - 1);
}

void draw_y_texts(const PanelPlan& plan, const Frame& f, std::vector<Shape>& shapes) {
  for (const Tick& tick : f.y.ticks) {
    const double part = (tick.at - f.y.low) / (f.y.high - f.y.low);
    const double y = f.y_down ? f.area.top + part * f.area.height() : f.area.bottom - part * f.area.height();
    shapes.push_back(TextShape{{f.area.left - 9, y}, tick.text, tick_size, Anchor::right, Role::text});
  }
  double y = f.area.top - y_label_height(plan) + label_line / 2 - 1;
  for (const std::string& line : plan.y_label) {
    shapes.push_back(TextShape{{f.area.left, y}, line, label_size, Anchor::left, Role::muted});
    y += 15;
  }
}

void draw_rulers(const Panel& panel, const Frame& f, std::vector<Shape>& shapes) {
  double y = f.area.bottom + ruler_rim + ruler_line / 2;
  for (const Ruler& ruler : panel.rulers) {
    shapes.push_back(TextShape{{f.area.left - 9, y}, ruler.name, tick_size, Anchor::right, Role::text});
    for (const RulerPart& part : ruler.parts) {
      const double from = std::clamp(f.px(part.from), f.area.left, f.area.right);
      const double to = std::clamp(f.px(part.to), f.area.left, f.area.right);
      if (to > from) shapes.push_back(RectShape{{from, y - 4, to, y + 4}, role_of(part.colour), 1});
    }
    y += ruler_line;
  }
}

void draw_marks(const Panel& panel, const Frame& f, Places& places, std::vector<Shape>& shapes) {
  for (const Mark& mark : panel.marks) {
    const bool upright = mark.along == Along::x;
    const double at = upright ? f.px(mark.at) : f.py(mark.at);
    const double low = upright ? f.area.left : f.area.top, high = upright ? f.area.right : f.area.bottom;
    if (!(at >= low - 0.5 && at <= high + 0.5)) continue;
    const Paint paint = role_of(mark.colour);
    const Paint words = mark.colour == PlotColour::grey ? Paint(Role::muted) : paint;
    if (upright) shapes.push_back(LineShape{{{at, f.area.top}, {at, f.area.bottom}}, paint, 1.2, true});
    else shapes.push_back(LineShape{{{f.area.left, at}, {f.area.right, at}}, paint, 1.2, true});
    if (mark.text.empty()) continue;
    const double width = text_width(mark.text, tick_size);
    if (upright) {
      const bool right = at + width + 10 < f.area.right;
      places.put({{right ? at + 6 : at - 6, f.area.top + 10},
                  mark.text,
                  tick_size,
                  right ? Anchor::left : Anchor::right,
                  words,
                  false,
                  true},
                 shapes);
    } else {
      const bool above = at - 18 > f.area.top;
      places.put({{f.area.right - 4, above ? at - 9 : at + 9}, mark.text, tick_size, Anchor::right, words, false, true},
                 shapes);
    }
  }
  for (const Note& note : panel.notes) {
    const Point at = f.at(note.x, note.y);
    if (!f.holds(at)) continue;
    const double width = text_width(note.text, tick_size);
    const bool left = at.x + width + 6 > f.area.right;
    places.put({{left ? at.x - 6 : at.x + 6, at.y},
                note.text,
                tick_size,
                left ? Anchor::right : Anchor::left,
                note.colour == PlotColour::grey ? Paint(Role::muted) : Paint(role_of(note.colour)),
                false,
                true},
               shapes);
  }
}

// A strip from pale to dark with the least and the largest value at its ends.
void draw_cell_scale(const Panel& panel, const Box& area, double y, std::vector<Shape>& shapes) {
  const CellRange range = cell_range(panel);
  if (!(range.low <= range.high)) return;
  constexpr int pieces = 24;
  const std::string low = significant_text(range.low, panel.cells.digits);
  double x = area.left;
  const std::string label = panel.cells.label + (panel.cells.unit.empty() ? "" : ", " + panel.cells.unit);
  if (!label.empty()) {
    shapes.push_back(TextShape{{x, y}, label, label_size, Anchor::left, Role::muted});
    x += text_width(label, label_size) + 16;
  }
  shapes.push_back(TextShape{{x, y}, low, label_size, Anchor::left, Role::text});
  x += text_width(low, label_size) + 8;
  const std::string high = significant_text(range.high, panel.cells.digits);
  const double length = std::clamp(area.right - x - 8 - text_width(high, label_size), 20.0, 160.0);
  for (int i = 0; i < pieces; ++i)  // each to the end, under the next: no seams
    shapes.push_back(RectShape{
        {x + length * i / pieces, y - 6, x + length, y + 6}, Paint::of_rgb(cell_colour((i + 0.5) / pieces)), 1});
  shapes.push_back(TextShape{
      {x + length + 8, y}, significant_text(range.high, panel.cells.digits), label_size, Anchor::left, Role::text});
}

// Lines alone run from edge to edge; marks at points need room, and bars a place to stand on.
Around x_room(const Panel& panel) {
  if (has_bars(panel)) return panel.horizontal ? Around::stand : Around::tight;
  const bool points = std::any_of(panel.series.begin(), panel.series.end(), [](const Series& s) {
    return s.draw == Draw::points || s.draw == Draw::line_points;
  });
  return points ? Around::room : Around::tight;
}

}  // namespace

std::string axis_text(const Axis& axis) {
  if (axis.unit.empty()) return axis.label;
  return axis.label.empty() ? axis.unit : axis.label + ", " + axis.unit;
}

PanelPlan plan_panel(const Panel& panel, double width, double height, bool own_legend) {
  PanelPlan plan;
  const bool lying = panel.horizontal, bars = has_bars(panel);
  plan.y = ready_axis(panel.y, values_along_y(panel), bars && !lying ? Around::stand : Around::room,
                      std::clamp(static_cast<int>(height / 42), 2, 7));
  double names = widest(plan.y.ticks);
  for (const Ruler& ruler : panel.rulers) names = std::max(names, text_width(ruler.name, tick_size));
  plan.margins.left = names + 14;
  plan.margins.right = lying && panel.value_digits > 0 ? 52 : 14;
  const double room = width - plan.margins.left - plan.margins.right;
  int most = 10;
  do {  // fewer ticks until their texts have room
    plan.x = ready_axis(panel.x, values_along_x(panel), x_room(panel), most);
  } while (panel.x.categories.empty() && panel.x.ticks.empty() && --most > 1 &&
           static_cast<double>(plan.x.ticks.size()) * (widest(plan.x.ticks) + 18) > room + 18);
  if (!panel.x.categories.empty())
    plan.x_texts = choose_texts(panel.x.categories, room / static_cast<double>(panel.x.categories.size()));

  if (panel.legend == Legend::automatic && own_legend) plan.legend = legend_items(panel);
  plan.title = wrapped(panel.title, panel_title_size, room, true);
  plan.y_label = wrapped(axis_text(panel.y), label_size, room);
  const double legend = legend_row * static_cast<double>(legend_rows(plan.legend, room));
  plan.margins.top = 8 + title_line * static_cast<double>(plan.title.size()) + legend + (legend > 0 ? 4 : 0) +
                     y_label_height(plan) + (has_cells(panel) ? cell_scale_line : 0);
  plan.margins.bottom = rulers_height(panel) +
                        (panel.x.categories.empty() ? tick_line : category_height(panel, plan.x_texts)) +
                        (axis_text(panel.x).empty() ? 0 : label_line) + 4;
  return plan;
}

void draw_panel(const Panel& panel, const PanelPlan& plan, const Box& area, std::vector<Shape>& shapes) {
  const Frame frame{plan.x, plan.y, area, !panel.y.categories.empty()};
  const double foot = area.bottom + rulers_height(panel);
  // From the top of the room down: title and legend. Panels side by side start on one line, whatever they need.
  double y = area.top - plan.margins.top + 4;
  for (const std::string& line : plan.title) {
    shapes.push_back(TextShape{{area.left, y + title_line / 2}, line, panel_title_size, Anchor::left, Role::ink, true});
    y += title_line;
  }
  draw_legend_rows(plan.legend, {area.left, y, area.right, area.top}, shapes);
  if (has_cells(panel)) draw_cell_scale(panel, area, area.top - y_label_height(plan) - cell_scale_line / 2 - 2, shapes);

  draw_grid(panel, frame, foot, shapes);
  draw_series(panel, frame, shapes);
  draw_rulers(panel, frame, shapes);
  Places places(area);
  const bool corner = panel.legend != Legend::automatic && panel.legend != Legend::none;
  if (corner) places.take(draw_legend_list(legend_items(panel), area, panel.legend, shapes));
  draw_marks(panel, frame, places, shapes);
  draw_x_texts(panel, plan, frame, foot, shapes);
  draw_y_texts(plan, frame, shapes);
}

}  // namespace narrow::plot
