#include "scaling/scale_trace_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "cli/json_value.hpp"
#include "cli/number_text.hpp"
#include "cli/terminal.hpp"
#include "narrow/report/escape.hpp"

namespace app::of_scale_trace {
namespace {

std::string scale_name(float scale) {
  if (std::isnan(scale)) return "NaN";
  if (scale == 0 || std::isinf(scale)) return scale == 0 ? "0" : "Inf";
  return scale_text(static_cast<double>(scale));
}

// What is wrong, or nothing.
std::string remarks(const Column& c, const std::vector<std::int64_t>& steps) {
  std::string text;
  const auto say = [&](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  const auto at = [&](std::size_t i) { return std::to_string(steps[i]); };
  if (c.summary.ended) say("run ends at step " + at(*c.summary.ended) + ": the framework raises");
  if (c.summary.collapsed)
    say("collapsed at step " + at(*c.summary.collapsed) + ": " +
        (c.is_recipe ? "scale " : "1/scale is not finite, scale ") +
        scale_name(c.trace.steps[*c.summary.collapsed].scale));
  if (c.summary.stalled)
    say("stalled from step " + at(*c.summary.stalled) + ": " + std::to_string(c.summary.longest_skip) +
        " steps in a row skipped");
  if (c.trace.clipped != 0) say(std::to_string(c.trace.clipped) + " steps clipped");
  return text.empty() ? "-" : text;
}

// How many steps were skipped, and in the same cell how sure that is.
std::string skipped_text(const Column& c, const narrow::OverflowModel& log) {
  const std::vector<std::int64_t>& steps = log.log().steps;
  const auto count = [](std::size_t n) { return std::to_string(n) + (n == 1 ? " step " : " steps "); };
  std::string text = std::to_string(c.summary.skipped);
  if (c.trace.estimated != 0) text += " (" + count(c.trace.estimated) + "estimated)";
  if (c.ends_unknown) {
    const std::size_t from = c.trace.steps.size() - 1;
    if (from == 0) text.clear();
    return text + (from == 0 ? "" : ", ") + "unknown from step " + std::to_string(steps[from]) + " (" +
           log.unknown_region() + ")";
  }
  const auto unknown = std::count_if(c.trace.steps.begin(), c.trace.steps.end(), [](const narrow::TraceStep& s) {
    return s.certainty == narrow::Certainty::unknown;
  });
  return unknown == 0 ? text : text + " (" + count(static_cast<std::size_t>(unknown)) + "unknown)";
}

TextTable summary_table(const std::vector<Column>& columns, const narrow::OverflowModel& log) {
  constexpr Align l = Align::left, r = Align::right;
  const std::vector<std::int64_t>& steps = log.log().steps;
  TextTable table{{"policy", "first", "last", "smallest", "largest", "settled", "skipped", "remarks"},
              {l, r, r, r, r, r, l, l},
              {}};
  for (const Column& c : columns) {
    const narrow::TraceSummary& s = c.summary;
    const auto known = [&](const std::string& text) { return c.ends_unknown ? "unknown" : text; };
    table.rows.push_back({c.name, scale_name(s.first), known(scale_name(s.last)), known(scale_name(s.smallest)),
                          known(scale_name(s.largest)), known(s.settled ? std::to_string(steps[*s.settled]) : "no"),
                          skipped_text(c, log), remarks(c, steps)});
  }
  return table;
}

// Steps at each scale. FP8 scales take any value: they are counted by their power of two.
TextTable time_table(const std::vector<Column>& columns, std::size_t steps) {
  TextTable table{{"scale"}, {Align::right}, {}};
  std::map<float, std::vector<std::uint64_t>, std::greater<>> rows;
  std::uint64_t not_a_number = 0;
  for (std::size_t k = 0; k < columns.size(); ++k) {
    table.header.push_back(columns[k].name);
    table.align.push_back(Align::right);
    for (const auto& [scale, count] : columns[k].summary.time_at_scale) {
      if (std::isnan(scale)) {
        not_a_number += count;
        continue;
      }
      const float place = scale > 0 && std::isfinite(scale) && columns[k].is_recipe
                              ? std::exp2(static_cast<float>(std::ilogb(scale)))
                              : scale;
      std::vector<std::uint64_t>& counts = rows[place];
      counts.resize(columns.size());
      counts[k] += count;
    }
  }
  for (const auto& [scale, counts] : rows) {
    std::vector<TextCell> cells{scale_name(scale)};
    for (const std::uint64_t count : counts) cells.emplace_back(count == 0 ? "." : std::to_string(count));
    table.rows.push_back(std::move(cells));
  }
  if (not_a_number != 0) table.rows.push_back({"NaN: " + std::to_string(not_a_number)});
  if (std::any_of(columns.begin(), columns.end(), [](const Column& c) { return c.ends_unknown; })) {
    std::vector<TextCell> cells{"unknown"};
    for (const Column& c : columns)
      cells.emplace_back(c.ends_unknown && steps != c.trace.steps.size() ? std::to_string(steps - c.trace.steps.size())
                                                                         : ".");
    table.rows.push_back(std::move(cells));
  }
  for (std::vector<TextCell>& row : table.rows) row.resize(table.header.size(), TextCell(""));
  return table;
}

// The scale before each step at which some scale is not that of the step before; '!' marks skipped steps, '?' unknown
// ones.
std::string mark(const narrow::TraceStep& s) {
  return s.certainty == narrow::Certainty::unknown ? "?" : s.skipped ? "!" : "";
}

std::string trajectory_text(const std::vector<Column>& columns, const std::vector<std::int64_t>& steps, bool colour) {
  constexpr std::size_t most = 40;
  std::vector<std::size_t> changes;
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (const Column& c : columns) {
      const auto& t = c.trace.steps;
      const bool ends = i == t.size() && i > 0;
      if (c.is_recipe || i > t.size() || (i == t.size() && !ends)) continue;
      if (i == 0 || ends || t[i].scale != t[i - 1].scale) {
        changes.push_back(i);
        break;
      }
    }
  TextTable table{{"step"}, {Align::right}, {}};
  for (const Column& c : columns) table.header.push_back(c.name), table.align.push_back(Align::right);
  for (std::size_t k = 0; k < changes.size() && k < most; ++k) {
    const std::size_t i = changes[k];
    std::vector<TextCell> cells{std::to_string(steps[i])};
    for (const Column& c : columns)
      cells.emplace_back(i >= c.trace.steps.size() ? (c.ends_unknown ? "unknown" : "ended")
                                                   : mark(c.trace.steps[i]) + scale_name(c.trace.steps[i].scale));
    table.rows.push_back(std::move(cells));
  }
  std::string text = "scale before the step, where one changes (! the step is skipped, ? it is not known)\n" +
                     table.to_text(colour, 2);
  if (changes.size() > most)
    text += "  ... " + std::to_string(changes.size() - most) + " more changes; -o FILE.csv has every step\n";
  return text;
}

struct ScaleCurve {
  char letter;
  std::string name;
  std::vector<float> scales;  // one a step; may end early
};

// A letter for each name that no other has: one of its own where possible.
std::vector<char> choose_letters(const std::vector<std::string>& names) {
  std::vector<char> letters;
  const auto taken = [&](char c) { return std::find(letters.begin(), letters.end(), c) != letters.end(); };
  for (const std::string& name : names) {
    const std::string candidates =
        name.substr(0, name.find(':')) + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char letter = '?';
    for (const char c : candidates)
      if (((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) && !taken(c)) {
        letter = c;
        break;
      }
    letters.push_back(letter);
  }
  return letters;
}

// Loss scales over steps as a picture in text: one letter a policy, one row a power of two.
// width: columns of the picture. Of curves that meet in one place the first is seen. A scale of 0 lies on the last row.
std::string scale_plot(const std::vector<ScaleCurve>& curves, const std::vector<std::int64_t>& steps, int width) {
  constexpr int tallest = 24, label = 8;
  if (steps.empty()) return "";
  int low = 1000, high = -1000;
  for (const ScaleCurve& curve : curves)
    for (const float s : curve.scales)
      if (s > 0 && std::isfinite(s)) low = std::min(low, std::ilogb(s)), high = std::max(high, std::ilogb(s));
  if (low > high) return "";
  const int binades_a_row = (high - low) / tallest + 1, rows = (high - low) / binades_a_row + 1;
  const std::size_t columns =
      std::min<std::size_t>(static_cast<std::size_t>(std::max(width - label, 10)), steps.size());
  std::vector<std::string> picture(static_cast<std::size_t>(rows), std::string(columns, ' '));
  for (const ScaleCurve& curve : curves)
    for (std::size_t i = 0; i < curve.scales.size(); ++i) {
      const float s = curve.scales[i];
      const int exponent = s > 0 && std::isfinite(s) ? std::ilogb(s) : s == 0 ? low : high;
      char& place = picture[static_cast<std::size_t>((high - exponent) / binades_a_row)][i * columns / steps.size()];
      if (place == ' ') place = curve.letter;
    }
  std::string text;
  for (int r = 0; r < rows; ++r) {
    std::string name = "2^" + std::to_string(high - r * binades_a_row);
    name.insert(0, static_cast<std::size_t>(label - 2) - std::min<std::size_t>(name.size(), label - 2), ' ');
    std::string line = picture[static_cast<std::size_t>(r)];
    line.erase(line.find_last_not_of(' ') + 1);
    text += name + " |" + line + "\n";
  }
  const std::string first = std::to_string(steps.front()), last = std::to_string(steps.back());
  const std::size_t gap = columns > first.size() + last.size() ? columns - first.size() - last.size() : 1;
  text += std::string(label - 1, ' ') + "+" + std::string(columns, '-') + "\n" + std::string(label, ' ') + first +
          std::string(gap, ' ') + last + "\n";
  std::string legend;
  for (const ScaleCurve& curve : curves)
    legend += (legend.empty() ? "" : ", ") + std::string(1, curve.letter) + " " + curve.name;
  return text + std::string(label, ' ') + legend + "\n";
}

std::string number_text(float scale) {
  char digits[40];
  if (std::isnan(scale)) return "nan";
  if (std::isinf(scale)) return scale > 0 ? "inf" : "-inf";
  return {digits, std::to_chars(digits, digits + sizeof digits, static_cast<double>(scale)).ptr};
}

}  // namespace

std::string to_text(const Source& source, const std::vector<Column>& columns, bool plot) {
  const bool colour = use_colour(1);
  const std::vector<std::int64_t>& steps = source.log.log().steps;
  std::string text = source.text + "\n";
  text += "overflow: " + source.log.describe() + "\n\n";
  text += summary_table(columns, source.log).to_text(colour) + "\n";
  text += "steps at each scale\n" + time_table(columns, steps.size()).to_text(colour, 2) + "\n";
  text += trajectory_text(columns, steps, colour);
  if (!plot) return text;
  std::vector<std::string> names;
  for (const Column& c : columns) names.push_back(c.name);
  const std::vector<char> letters = choose_letters(names);
  std::vector<ScaleCurve> curves;
  for (std::size_t k = 0; k < columns.size(); ++k) {
    ScaleCurve curve{letters[k], names[k], {}};
    for (const narrow::TraceStep& s : columns[k].trace.steps) curve.scales.push_back(s.scale);
    curves.push_back(std::move(curve));
  }
  const int width = terminal_width(1);
  return text + "\n" + scale_plot(curves, steps, width == 0 ? 100 : std::min(width, 140));
}

// By hand: a million steps of ten policies are too many for a tree of JSON values. What the log cannot tell is null;
// the step from which on it cannot says between which scales.
std::string to_json(const std::vector<Column>& columns, const narrow::OverflowModel& log) {
  const std::vector<std::int64_t>& steps = log.log().steps;
  const auto json = [](float scale) {
    const std::string text = number_text(scale);
    return std::isfinite(scale) ? text : "\"" + text + "\"";
  };
  std::string text = "{";
  for (const Column& c : columns) {
    text += (&c == &columns.front() ? "\n  " : ",\n  ") + Json(c.name).dump() + ": [";
    const std::size_t known = c.trace.steps.size();
    for (std::size_t i = 0; i < (c.ends_unknown ? steps.size() : known); ++i) {
      text += (i == 0 ? "\n    {\"step\": " : ",\n    {\"step\": ") + std::to_string(steps[i]);
      if (i >= known) {
        text += ", \"scale\": null, \"skipped\": null}";
        continue;
      }
      const narrow::TraceStep& s = c.trace.steps[i];
      const bool unknown = s.certainty == narrow::Certainty::unknown;
      text += ", \"scale\": " + json(s.scale) + ", \"skipped\": " + (unknown ? "null" : s.skipped ? "true" : "false");
      if (s.event != narrow::ScaleEvent::none) text += ", \"event\": \"" + std::string(name_of(s.event)) + "\"";
      if (s.certainty == narrow::Certainty::estimated) text += ", \"estimated\": true";
      if (unknown && c.ends_unknown) {
        const narrow::ScaleBounds& b = log.known();
        text += ", \"known_up_to\": " + (b.good_up_to < 0 ? "null" : json(b.good_up_to)) +
                ", \"known_from\": " + (std::isinf(b.overflow_from) ? "null" : json(b.overflow_from));
      }
      text += "}";
    }
    text += "\n  ]";
  }
  return text + "\n}\n";
}

// Empty where the log cannot tell.
std::string to_csv(const std::vector<Column>& columns, const std::vector<std::int64_t>& steps) {
  std::string text = "step";
  for (const Column& c : columns) {
    text += "," + narrow::report::csv_field(c.name + " scale") + "," + narrow::report::csv_field(c.name + " skipped");
    if (c.trace.estimated != 0) text += "," + narrow::report::csv_field(c.name + " estimated");
  }
  text += "\n";
  for (std::size_t i = 0; i < steps.size(); ++i) {
    text += std::to_string(steps[i]);
    for (const Column& c : columns) {
      const narrow::TraceStep* s = i < c.trace.steps.size() ? &c.trace.steps[i] : nullptr;
      const bool is_known = s != nullptr && s->certainty != narrow::Certainty::unknown;
      text += "," + (s != nullptr ? number_text(s->scale) : "") + "," + (is_known ? (s->skipped ? "1" : "0") : "");
      if (c.trace.estimated != 0)
        text += std::string(",") + (is_known ? (s->certainty == narrow::Certainty::estimated ? "1" : "0") : "");
    }
    text += "\n";
  }
  return text;
}

}  // namespace app::of_scale_trace
