#include "tensors/trend.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/number_text.hpp"
#include "cli/terminal.hpp"
#include "options/tensor_text.hpp"

namespace app {
namespace {

// An increase below this is noise of a few elements, even where it doubles a tiny share.
constexpr double least_increase = 0.01;

using Series = std::vector<const StatsRow*>;

// By tensor and format, in the order in which they first came.
template <class Rows>
std::vector<std::vector<std::size_t>> group(const Rows& rows) {
  std::map<std::pair<std::string, std::string>, std::size_t> place;
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto [found, added] = place.try_emplace({rows[i].tensor, rows[i].format}, groups.size());
    if (added) groups.emplace_back();
    groups[found->second].push_back(i);
  }
  return groups;
}

double share(std::uint64_t part, const StatsRow& row) {
  return row.input.count == 0 ? 0 : static_cast<double>(part) / static_cast<double>(row.input.count);
}

std::string reason(const StatsRow& first, const StatsRow& row) {
  if (row.input.nan != 0) return "NaN in the data: " + std::to_string(row.input.nan);
  if (row.input.inf != 0) return "Inf in the data: " + std::to_string(row.input.inf);
  const std::uint64_t overflow = row.overflow();
  if (overflow != row.in_format.clamped) return "overflow of " + count_text(overflow, row.input.count);
  const double before = share(first.in_format.underflow, first), now = share(row.in_format.underflow, row);
  if (now >= 2 * before && now >= before + least_increase)
    return "underflow is " + share_text(now) + ", was " + share_text(before) + " at the first step";
  return "";
}

std::string arrow(const std::string& a, const std::string& b) { return a == b ? a : a + " -> " + b; }

std::string amax_text(const StatsRow& row) { return row.input.finite() == 0 ? "-" : digits_text(row.input.amax, 4); }

const StatsRow* first_break(const Series& series) {
  const auto found =
      std::find_if(series.begin(), series.end(), [](const StatsRow* row) { return !row->breaks.empty(); });
  return found == series.end() ? nullptr : *found;
}

std::string step_text(const StatsRow& row) { return row.step ? std::to_string(*row.step) : row.file; }

}  // namespace

void find_breaks(std::vector<StatsRow>& rows) {
  for (const auto& places : group(rows))
    for (const std::size_t i : places) rows[i].breaks = reason(rows[places.front()], rows[i]);
}

std::string trend_text(const std::vector<StatsRow>& rows, bool colour) {
  std::vector<Series> all;
  for (const auto& places : group(rows)) {
    all.emplace_back();
    for (const std::size_t i : places) all.back().push_back(&rows[i]);
  }
  // Earliest break first, then the largest loss at the last step.
  const auto key = [](const Series& s) {
    const StatsRow* broken = first_break(s);
    const std::uint64_t step = broken == nullptr ? ~std::uint64_t{0} : broken->step.value_or(0);
    return std::pair(step, -share(s.back()->lost(), *s.back()));
  };
  std::stable_sort(all.begin(), all.end(), [&](const Series& a, const Series& b) { return key(a) < key(b); });

  constexpr Align l = Align::left, r = Align::right;
  TextTable table{{"tensor", "format", "steps", "amax", "underflow", "overflow", "SQNR dB", "breaks at"},
              {l, l, r, l, l, l, l, l},
              {}};
  for (const Series& s : all) {
    const StatsRow &a = *s.front(), &b = *s.back();
    const StatsRow* broken = first_break(s);
    const std::string when = broken == nullptr ? "-" : step_text(*broken) + ": " + broken->breaks;
    table.rows.push_back(
        {printable(a.tensor), a.format, std::to_string(s.size()), arrow(amax_text(a), amax_text(b)),
         arrow(share_text(share(a.in_format.underflow, a)), share_text(share(b.in_format.underflow, b))),
         arrow(share_text(share(a.overflow(), a)), share_text(share(b.overflow(), b))),
         arrow(sqnr_text(a), sqnr_text(b)), TextCell{when, broken == nullptr ? when : paint(when, Colour::red, true)}});
  }
  std::string text = table.to_text(colour, 2);
  const StatsRow* broken = all.empty() ? nullptr : first_break(all.front());
  if (broken == nullptr) return text + "nothing breaks in these steps\n";
  return text + "first break: step " + step_text(*broken) + ", " + printable(broken->tensor) + " in " + broken->format +
         ": " + broken->breaks + "\n";
}

}  // namespace app
