// An answer as a picture, said as data: panels, axes, series, marks and rulers. Drawing it is the business of plot/.
//
//   const report::Series losses{.name = "loss", .draw = report::Draw::line, .x = {0, 1, 2}, .y = {2.3, 1.9, 1.7}};
//   const report::Plot plot{.name = "loss", .title = "The loss falls", .panels = {{.series = {losses}}}};
//   report::check(plot);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace narrow::report {

// Colours that people with any colour vision tell apart (Okabe and Ito, "Color universal design", 2008). A renderer may
// shift them a little for dark backgrounds. `automatic` takes the next colour of the panel that is not used yet.
// By custom: vermilion is lost, orange is damaged (subnormal), blue is kept.
enum class PlotColour : std::uint8_t { automatic, blue, orange, green, vermilion, sky, purple, yellow, grey, ink };

// `exponent_of_two`: the axis is linear in k, the numbers given are k, and the ticks read 2^k. For binades of a
// histogram, which reach beyond the range of a double when they are written out.
enum class AxisScale : std::uint8_t { linear, log2, log10, exponent_of_two };

// A tick with words of its own.
struct Tick {
  double at = 0;
  std::string text = {};
};

// One axis of a panel.
struct Axis {
  std::string label = {};  // what is measured: "share of non-zero values"
  std::string unit = {};   // "%", "dB", "steps"; empty for a pure number
  AxisScale scale = AxisScale::linear;
  std::optional<double> low = {}, high = {};  // else from the data
  std::vector<std::string> categories = {};  // not empty: place k of the axis (0, 1, ..) has this name; scale is linear
  std::vector<Tick> ticks = {};              // not empty: these and no others
};

// How the numbers of a series are shown.
enum class Draw : std::uint8_t {
  bars,  // from zero (on log axes: the foot) to y, centred on x: the binade [2^k, 2^(k+1)) has its middle at k + 0.5
  line,
  line_points,  // a line with a mark at each point
  steps,        // y holds from x to the next x: scales, states
  points,
  band,   // the area between low and high
  cells,  // a map: a coloured cell at each place (x, y) of two axes with categories, by its `value`
};

// x, y of one length; a y that is not finite is a gap. On logarithmic axes a number <= 0 is a gap as well.
struct Series {
  std::string name = {};  // in the legend; empty: not in the legend
  Draw draw = Draw::line;
  std::vector<double> x = {}, y = {};
  std::vector<double> low = {}, high = {};  // for a band its edges (y is not used); for the others error bars, or empty
  std::vector<double> value = {};           // for cells; not finite: an empty cell
  PlotColour colour = PlotColour::automatic;
  bool dashed = false;
  bool faint = false;  // drawn pale and thin: single runs behind their mean, a reference behind a measurement
};

// How the values of cells become colours: from pale to dark between the least and the largest, in steps of log10
// where `log` is set.
struct CellScale {
  std::string label = {};
  std::string unit = {};
  bool log = false;
  int digits = 2;  // significant digits of the number that stands in each cell
};

// Which axis a mark belongs to.
enum class Along : std::uint8_t { x, y };

// A line across the panel with a word at it: a threshold, an event. Along::x: vertical, at x = `at`.
struct Mark {
  Along along = Along::x;
  double at = 0;
  std::string text = {};
  PlotColour colour = PlotColour::grey;
};

// A word inside the panel, at a place in the units of the axes.
struct Note {
  double x = 0, y = 0;
  std::string text = {};
  PlotColour colour = PlotColour::ink;
};

// A ruler under the bars: the range of a format on the x axis, in parts (subnormal, normal). Parts are cut at the axis.
struct RulerPart {
  double from = 0, to = 0;
  PlotColour colour = PlotColour::blue;
};
// A row of parts under a name.
struct Ruler {
  std::string name = {};
  std::vector<RulerPart> parts = {};
};

// Where bars of several series stand.
enum class BarLayout : std::uint8_t { grouped, stacked, overlaid };
// Where the names of the series stand.
enum class Legend : std::uint8_t { automatic, top_left, top_right, bottom_left, bottom_right, none };

// One drawing area with its axes.
struct Panel {
  std::string title = {};  // what differs from the other panels; empty when there is one
  Axis x = {}, y = {};
  std::vector<Series> series = {};
  std::vector<Mark> marks = {};
  std::vector<Note> notes = {};
  std::vector<Ruler> rulers = {};
  CellScale cells = {};
  BarLayout bars = BarLayout::grouped;
  double bar_width = 0.9;   // of the distance between neighbouring places
  int value_digits = 0;     // not 0: the number stands at the end of each bar or stack, with so many digits
  bool horizontal = false;  // bars lie: categories on y (then x of a series is still the place, y the length)
  // automatic: above the panel. Series of one name and colour in several panels are named in the first panel only.
  Legend legend = Legend::automatic;
};

// In every text 2^-25 is drawn with a raised exponent and log2 with a lowered 2; all else is taken literally.
struct Plot {
  std::string name = {};      // of its files: NAME.svg, NAME.png; letters, digits and _
  std::string title = {};     // the finding, with its number
  std::string subtitle = {};  // what was measured on what
  std::vector<Panel> panels = {};
  int columns = 1;          // panels in a row
  double panel_height = 0;  // in pixels; 0: chosen by the number of panels
  std::string alt = {};     // what a reader who cannot see it should know; empty: title and subtitle
};

// Throws std::logic_error naming the plot and what does not fit: x and y of different length, no panel, low without
// high, a name that is no file name.
void check(const Plot& plot);

}  // namespace narrow::report
