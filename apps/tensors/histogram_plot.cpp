#include "tensors/histogram_plot.hpp"

#include <algorithm>

#include "narrow/report/table.hpp"
#include "options/tensor_text.hpp"

namespace app {
namespace {

using narrow::BinadeCounts;
using narrow::report::Draw;
using narrow::Fate;
using narrow::Fates;
using narrow::Format;
using narrow::report::PlotColour;

struct FateRow {
  Fate fate;
  const char* words;
  PlotColour colour;
};
constexpr FateRow fates[] = {{Fate::zero, "becomes zero", PlotColour::vermilion},
                             {Fate::subnormal, "subnormal", PlotColour::orange},
                             {Fate::normal, "normal", PlotColour::blue},
                             {Fate::beyond, "beyond the largest value", PlotColour::purple}};

// The smallest exponent whose values are not subnormal; integers and formats without subnormals have one kind of
// values.
int first_normal(const Format& f) {
  return f.is_integer() || !f.has_subnormals() ? f.min_quantum_exponent() : f.min_exponent();
}

std::uint64_t nonzero(const BinadeCounts& c) { return c.count() - c.zero.total() - c.inf.total() - c.nan.total(); }

std::string share_of(const Fates& f, Fate fate) {
  const double whole = static_cast<double>(std::max<std::uint64_t>(f.total(), 1));
  return narrow::report::percent_text(static_cast<double>(f[fate]) / whole);
}

narrow::report::Ruler ruler_of(const PlotFormat& format) {
  const Format& f = *format.range;
  const double least = f.min_quantum_exponent(), normal = first_normal(f), end = f.max_exponent() + 1;
  return {format.name, {{least, normal, PlotColour::orange}, {normal, end, PlotColour::blue}}};
}

// Room for the data and for where the first format begins and ends.
void choose_range(const BinadeCounts& c, const std::optional<Format>& f, narrow::report::Axis& axis) {
  int low = f ? f->min_quantum_exponent() - 4 : -8, high = f ? f->max_exponent() + 2 : 8;
  for (std::size_t k = 0; k < c.binades.size(); ++k) {
    if (c.binades[k].total() == 0) continue;
    low = std::min(low, c.min_exponent + static_cast<int>(k) - 1);
    high = std::max(high, c.min_exponent + static_cast<int>(k) + 2);
  }
  // Formats as wide as the carrier would press the data into a corner: then the data alone decides.
  if (high - low > 90) {
    low = c.min_exponent + static_cast<int>(c.binades.size()), high = c.min_exponent;
    for (std::size_t k = 0; k < c.binades.size(); ++k) {
      if (c.binades[k].total() == 0) continue;
      low = std::min(low, c.min_exponent + static_cast<int>(k) - 4);
      high = std::max(high, c.min_exponent + static_cast<int>(k) + 5);
    }
  }
  if (low >= high) low = -8, high = 8;
  axis.low = low;
  axis.high = high;
}

narrow::report::Panel panel_of(const NamedCounts& tensor, std::size_t k, const std::vector<PlotFormat>& formats,
                       bool all_rulers) {
  narrow::report::Panel panel;
  const narrow::BinadeFates& f = tensor.fates[k];
  panel.x = {.label = "magnitude", .scale = narrow::report::AxisScale::exponent_of_two};
  panel.y = {.label = "share of the non-zero values", .unit = "%"};
  panel.bars = narrow::report::BarLayout::stacked;
  const double whole = static_cast<double>(std::max<std::uint64_t>(f.all().total(), 1));
  choose_range(tensor.counts, formats[0].range, panel.x);  // the same for all formats: places compare
  for (const FateRow& row : fates) {
    narrow::report::Series bars{.name = row.words, .draw = Draw::bars, .colour = row.colour};
    if (f.all()[row.fate] == 0) continue;
    for (std::size_t i = 0; i < f.binades.size(); ++i) {
      if (f.binades[i].total() == 0) continue;  // the series of a stack share their places
      bars.x.push_back(f.min_exponent + static_cast<int>(i) - 0.5);
      bars.y.push_back(100 * static_cast<double>(f.binades[i][row.fate]) / whole);
    }
    panel.series.push_back(std::move(bars));
  }
  for (std::size_t i = 0; i < formats.size(); ++i)
    if (formats[i].range && (all_rulers || i == k)) panel.rulers.push_back(ruler_of(formats[i]));
  return panel;
}

NamedCounts pool(const std::vector<NamedCounts>& all) {
  NamedCounts sum = all.at(0);
  for (std::size_t i = 1; i < all.size(); ++i) {
    sum.counts.merge(all[i].counts);
    for (std::size_t k = 0; k < sum.fates.size(); ++k) sum.fates[k].merge(all[i].fates[k]);
  }
  return sum;
}

}  // namespace

narrow::report::Plot histogram_plot(const std::vector<NamedCounts>& all, const std::vector<PlotFormat>& formats, bool pooled,
                            const std::string& about) {
  const NamedCounts sum = pool(all);
  const BinadeCounts& c = sum.counts;
  narrow::report::Plot plot;
  plot.name = "histogram";
  plot.subtitle = about + ", " + narrow::report::count_text(static_cast<std::int64_t>(nonzero(c))) + " non-zero values";
  if (c.nan.total() + c.inf.total() > 0)
    plot.subtitle += "; left out: " + narrow::report::count_text(static_cast<std::int64_t>(c.nan.total())) + " NaN, " +
                     narrow::report::count_text(static_cast<std::int64_t>(c.inf.total())) + " Inf";
  const Fates f = sum.fates[0].all();
  plot.title = nonzero(c) == 0
                   ? "There is no finite value but zero"
                   : formats[0].name + " turns " + share_of(f, Fate::zero) + " of the values into zero and " +
                         share_of(f, Fate::subnormal) + " into subnormals";
  if (f[Fate::beyond] != 0)
    plot.title +=
        "; " + share_of(f, Fate::beyond) + " are beyond its " + (formats[0].range ? "range" : "largest value");
  const std::size_t rows = pooled ? 1 : all.size();
  plot.columns = rows > 1 && formats.size() > 1 ? static_cast<int>(formats.size()) : 2;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < formats.size(); ++k) {
      plot.panels.push_back(panel_of(pooled ? sum : all[i], k, formats, rows * formats.size() <= 4));
      std::string& title = plot.panels.back().title;
      if (rows > 1) title = printable(all[i].name);
      if (formats.size() > 1)
        title += (title.empty() ? "" : ", ") + formats[k].name + ": " +
                 share_of((pooled ? sum : all[i]).fates[k].all(), Fate::zero) + " zero";
    }
  return plot;
}

}  // namespace app
