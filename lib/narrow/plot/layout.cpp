#include "narrow/plot/layout.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "narrow/plot/panel.hpp"
#include "narrow/plot/text_size.hpp"
#include "narrow/report/escape.hpp"

namespace narrow::plot {
namespace {

constexpr double rim = 14, between_columns = 22, between_rows = 16;
constexpr double title_size = 17, subtitle_size = 13;

// Legends of panels that say no more than the first does stand once, above the picture.
bool shares_legend(const Plot& plot) {
  if (plot.panels.size() < 2) return false;
  const std::vector<LegendItem> first = legend_items(plot.panels[0]);
  for (const Panel& panel : plot.panels) {
    if (panel.legend != Legend::automatic) return false;
    for (const LegendItem& item : legend_items(panel))
      if (std::find(first.begin(), first.end(), item) == first.end()) return false;
  }
  return !first.empty();
}

double area_height(const Plot& plot, const Panel& panel) {
  if (plot.panel_height > 0) return plot.panel_height;
  // Rows of names need their own height, whatever the number of panels.
  if (!panel.y.categories.empty()) {
    std::size_t in_group = 1;
    if (panel.horizontal && panel.bars == BarLayout::grouped)
      in_group = static_cast<std::size_t>(std::count_if(panel.series.begin(), panel.series.end(),
                                                        [](const Series& s) { return s.draw == Draw::bars; }));
    return static_cast<double>(panel.y.categories.size()) * std::max(26.0, 14.0 * static_cast<double>(in_group) + 8);
  }
  return plot.panels.size() == 1 ? 320 : plot.columns <= 1 ? 240 : plot.columns == 2 ? 230 : 200;
}

double draw_lines(const std::string& text, double size, bool bold, Role role, double width, double y,
                  std::vector<Shape>& shapes) {
  const double line = 1.35 * size;
  for (const std::string& part : wrapped(text, size, width - 2 * rim, bold)) {
    shapes.push_back(TextShape{{rim, y + line / 2}, part, size, Anchor::left, role, bold});
    y += line;
  }
  return y;
}

void share_margins(std::vector<PanelPlan>& plans, std::size_t columns) {
  for (std::size_t i = 0; i < plans.size(); ++i)
    for (std::size_t j = 0; j < plans.size(); ++j) {
      Margins &a = plans[i].margins, &b = plans[j].margins;
      if (i % columns == j % columns) a.left = std::max(a.left, b.left), a.right = std::max(a.right, b.right);
      if (i / columns == j / columns) a.top = std::max(a.top, b.top), a.bottom = std::max(a.bottom, b.bottom);
    }
}

}  // namespace

Plot with_colours(Plot plot) {
  constexpr std::array order{PlotColour::blue,   PlotColour::orange, PlotColour::green,  PlotColour::vermilion,
                             PlotColour::purple, PlotColour::sky,    PlotColour::yellow, PlotColour::grey};
  std::map<std::string, PlotColour> by_name;
  for (const Panel& panel : plot.panels)
    for (const Series& s : panel.series)
      if (s.colour != PlotColour::automatic && !s.name.empty()) by_name.try_emplace(s.name, s.colour);
  for (Panel& panel : plot.panels) {
    const auto is_used = [&](PlotColour colour) {
      return std::any_of(panel.series.begin(), panel.series.end(), [&](const Series& s) { return s.colour == colour; });
    };
    for (Series& s : panel.series) {
      if (s.colour != PlotColour::automatic) continue;
      const auto known = by_name.find(s.name);
      if (known != by_name.end()) {
        s.colour = known->second;
        continue;
      }
      const auto next = std::find_if_not(order.begin(), order.end(), is_used);
      s.colour = next == order.end() ? PlotColour::grey : *next;
      if (!s.name.empty()) by_name[s.name] = s.colour;
    }
  }
  return plot;
}

Scene lay_out(const Plot& original, const LayoutOptions& options) {
  check(original);
  const Plot plot = with_colours(original);
  Scene scene;
  scene.width = options.width;
  scene.title = plot.title;
  scene.description = plot.alt.empty() ? plot.subtitle : plot.alt;

  double y = options.titles ? rim : 4;
  if (options.titles) {
    y = draw_lines(plot.title, title_size, true, Role::ink, scene.width, y, scene.shapes) + 2;
    y = draw_lines(plot.subtitle, subtitle_size, false, Role::muted, scene.width, y, scene.shapes) + 8;
  }
  const bool shared = shares_legend(plot);
  if (shared) {
    const std::vector<LegendItem> items = legend_items(plot.panels[0]);
    const double height = legend_row * static_cast<double>(legend_rows(items, scene.width - 2 * rim));
    draw_legend_rows(items, {rim, y, scene.width - rim, y + height}, scene.shapes);
    y += height + 6;
  }

  const auto columns = static_cast<std::size_t>(std::min<int>(plot.columns, static_cast<int>(plot.panels.size())));
  const double width =
      (scene.width - 2 * rim - between_columns * static_cast<double>(columns - 1)) / static_cast<double>(columns);
  std::vector<PanelPlan> plans;
  for (const Panel& panel : plot.panels) plans.push_back(plan_panel(panel, width, area_height(plot, panel), !shared));
  share_margins(plans, columns);
  for (std::size_t row = 0; row * columns < plans.size(); ++row) {
    const std::size_t begin = row * columns, end = std::min(plans.size(), begin + columns);
    double height = 0;
    for (std::size_t i = begin; i < end; ++i) height = std::max(height, area_height(plot, plot.panels[i]));
    const Margins& m = plans[begin].margins;  // top and bottom are the same in a row
    for (std::size_t i = begin; i < end; ++i) {
      const double left = rim + (width + between_columns) * static_cast<double>(i - begin);
      const Box area{left + plans[i].margins.left, y + m.top, left + width - plans[i].margins.right,
                     y + m.top + height};
      draw_panel(plot.panels[i], plans[i], area, scene.shapes);
    }
    y += m.top + height + m.bottom + between_rows;
  }
  scene.height = std::ceil(y - between_rows + (options.titles ? rim : 4));
  for (Shape& shape : scene.shapes)  // names of tensors come from files
    if (auto* text = std::get_if<TextShape>(&shape)) text->text = visible(text->text);
  return scene;
}

}  // namespace narrow::plot
