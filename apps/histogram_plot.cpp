#include "histogram_plot.hpp"

#include <algorithm>

#include "narrow/report/table.hpp"
#include "tensor_text.hpp"

namespace app {
namespace {

using narrow::BinadeCounts;
using narrow::Draw;
using narrow::Format;
using narrow::PlotColour;

constexpr std::size_t most_panels = 6;

enum class Fate : std::uint8_t { zero, subnormal, normal, beyond };
struct FateRow {
  const char* words;
  PlotColour colour;
};
constexpr FateRow fates[] = {{"becomes zero in ", PlotColour::vermilion},
                             {"subnormal in ", PlotColour::orange},
                             {"normal in ", PlotColour::blue},
                             {"beyond the range of ", PlotColour::purple}};

// The smallest exponent whose values are not subnormal; integers and formats without subnormals have one kind of
// values.
int first_normal(const Format& f) {
  return f.is_integer() || !f.has_subnormals() ? f.min_quantum_exponent() : f.min_exponent();
}

// Rounded to nearest, what lies above half the smallest value stays: all of the binade below it but its first value.
Fate fate_of(const Format& f, int exponent) {
  if (exponent > f.max_exponent()) return Fate::beyond;
  if (exponent >= first_normal(f)) return Fate::normal;
  return exponent >= f.min_quantum_exponent() - 1 ? Fate::subnormal : Fate::zero;
}

std::uint64_t nonzero(const BinadeCounts& c) { return c.count() - c.zero.total() - c.inf.total() - c.nan.total(); }

struct Shares {
  double of[4] = {};
};

Shares shares_of(const BinadeCounts& c, const Format& f) {
  Shares shares;
  const double whole = static_cast<double>(std::max<std::uint64_t>(nonzero(c), 1));
  for (std::size_t k = 0; k < c.binades.size(); ++k)
    shares.of[static_cast<int>(fate_of(f, c.min_exponent + static_cast<int>(k)))] +=
        static_cast<double>(c.binades[k].total()) / whole;
  shares.of[static_cast<int>(fate_of(f, c.min_exponent - 1))] += static_cast<double>(c.subnormal.total()) / whole;
  return shares;
}

narrow::Ruler ruler_of(const ChosenFormat& format) {
  const Format& f = format.format;
  const double least = f.min_quantum_exponent(), normal = first_normal(f), end = f.max_exponent() + 1;
  return {format.name, {{least, normal, PlotColour::orange}, {normal, end, PlotColour::blue}}};
}

// Room for the data and for where the first format begins and ends.
void choose_range(const BinadeCounts& c, const Format& f, narrow::Axis& axis) {
  int low = f.min_quantum_exponent() - 4, high = f.max_exponent() + 2;
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

narrow::Panel panel_of(const NamedCounts& tensor, const std::vector<ChosenFormat>& formats, bool titled) {
  narrow::Panel panel;
  if (titled) panel.title = printable(tensor.name);
  const BinadeCounts& c = tensor.counts;
  panel.x = {.label = "magnitude", .scale = narrow::AxisScale::exponent_of_two};
  panel.y = {.label = "share of the non-zero values", .unit = "%"};
  panel.bars = narrow::BarLayout::overlaid;
  const double whole = static_cast<double>(std::max<std::uint64_t>(nonzero(c), 1));
  choose_range(c, formats.empty() ? *narrow::find_format("fp32") : formats[0].format, panel.x);
  for (std::size_t fate = 0; fate < 4; ++fate) {
    narrow::Series bars{.draw = Draw::bars, .colour = fates[fate].colour};
    bars.name = formats.empty() ? "" : fates[fate].words + formats[0].name;
    if (formats.empty() && fate != static_cast<std::size_t>(Fate::normal)) continue;
    for (std::size_t k = 0; k < c.binades.size(); ++k) {
      const int exponent = c.min_exponent + static_cast<int>(k);
      if (c.binades[k].total() == 0) continue;
      if (!formats.empty() && static_cast<std::size_t>(fate_of(formats[0].format, exponent)) != fate) continue;
      bars.x.push_back(exponent + 0.5);
      bars.y.push_back(100 * static_cast<double>(c.binades[k].total()) / whole);
    }
    // The bars of all series are one binade wide, however few there are.
    if (!bars.x.empty()) panel.series.push_back(std::move(bars));
  }
  for (const ChosenFormat& format : formats) panel.rulers.push_back(ruler_of(format));
  return panel;
}

}  // namespace

narrow::Plot histogram_plot(const std::vector<NamedCounts>& all, const std::vector<ChosenFormat>& formats,
                            const std::string& about) {
  BinadeCounts sum = all.at(0).counts;
  for (std::size_t i = 1; i < all.size(); ++i) sum.merge(all[i].counts);
  narrow::Plot plot;
  plot.name = "histogram";
  plot.subtitle = about + ", " + narrow::count_text(static_cast<std::int64_t>(nonzero(sum))) + " non-zero values";
  if (sum.nan.total() + sum.inf.total() > 0)
    plot.subtitle += "; left out: " + narrow::count_text(static_cast<std::int64_t>(sum.nan.total())) + " NaN, " +
                     narrow::count_text(static_cast<std::int64_t>(sum.inf.total())) + " Inf";
  if (formats.empty()) {
    plot.title = "Binades of " + (all.size() == 1 ? printable(all[0].name) : std::to_string(all.size()) + " tensors");
  } else {
    const Shares s = shares_of(sum, formats[0].format);
    if (nonzero(sum) == 0) plot.title = "There is no finite value but zero";
    else
      plot.title = formats[0].name + " turns " + narrow::percent_text(s.of[0]) + " of the values into zero and " +
                   narrow::percent_text(s.of[1]) + " into subnormals";
    if (s.of[3] > 0) plot.title += "; " + narrow::percent_text(s.of[3]) + " are beyond its range";
  }
  if (all.size() > 1 && all.size() <= most_panels) {
    plot.columns = 2;
    for (const NamedCounts& tensor : all) plot.panels.push_back(panel_of(tensor, formats, true));
  } else {
    plot.panels.push_back(panel_of({"", sum}, formats, false));
  }
  return plot;
}

}  // namespace app
