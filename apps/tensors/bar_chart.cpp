#include "tensors/bar_chart.hpp"

#include <algorithm>

#include "cli/terminal.hpp"
#include "options/tensor_text.hpp"

namespace app {
namespace {

struct Row {
  std::string label;
  std::uint64_t count;
  std::vector<char> marks;  // one a format
};

char mark(const narrow::Format& f, int exponent) {
  if (exponent > f.max_exponent()) return ' ';
  // Integers and formats without subnormals have one kind of values down to the smallest.
  const int first_normal = f.is_integer() ? f.min_quantum_exponent() : f.min_exponent();
  if (exponent >= first_normal) return '#';
  return f.has_subnormals() && exponent >= f.min_quantum_exponent() ? ':' : ' ';
}

char mark(const narrow::BinadeFates& fates, int exponent) {
  const int k = exponent - fates.min_exponent + 1;
  if (k < 0 || static_cast<std::size_t>(k) >= fates.binades.size()) return ' ';
  const narrow::Fates& f = fates.binades[static_cast<std::size_t>(k)];
  const auto most = static_cast<narrow::Fate>(std::max_element(f.of.begin(), f.of.end()) - f.of.begin());
  return f.total() == 0 ? ' ' : most == narrow::Fate::normal ? '#' : most == narrow::Fate::subnormal ? ':' : ' ';
}

std::vector<Row> rows_of(const narrow::BinadeCounts& counts, const std::vector<ChosenFormat>& formats,
                         const std::vector<BlockColumn>& blocks) {
  std::vector<Row> rows;
  const std::vector<char> blank(formats.size() + blocks.size(), ' ');
  const auto special = [&](const char* label, const narrow::SignCounts& c) {
    if (c.total() != 0) rows.push_back({label, c.total(), blank});
  };
  special("NaN", counts.nan);
  special("Inf", counts.inf);
  const auto occupied = [](const narrow::SignCounts& c) { return c.total() != 0; };
  const auto first = std::find_if(counts.binades.begin(), counts.binades.end(), occupied);
  const auto last = std::find_if(counts.binades.rbegin(), counts.binades.rend(), occupied).base();
  constexpr std::ptrdiff_t longest_gap = 12;  // doubles may be a thousand binades apart
  for (auto at = last; at != counts.binades.begin() && first < at;) {
    --at;
    const auto below = std::find_if(std::make_reverse_iterator(at + 1), counts.binades.rend(), occupied).base();
    if (at + 1 - below > longest_gap) {
      rows.push_back({"...", 0, blank});
      at = below;
      continue;
    }
    const int exponent = counts.min_exponent + static_cast<int>(at - counts.binades.begin());
    Row row{"2^" + std::to_string(exponent), at->total(), {}};
    for (const ChosenFormat& f : formats) row.marks.push_back(mark(f.format, exponent));
    for (const BlockColumn& b : blocks) row.marks.push_back(mark(b.fates, exponent));
    rows.push_back(std::move(row));
  }
  special("subnormal", counts.subnormal);
  special("zero", counts.zero);
  return rows;
}

std::string left_padded(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

}  // namespace

std::string bar_chart(const narrow::BinadeCounts& counts, const std::vector<ChosenFormat>& formats,
                      const std::vector<BlockColumn>& blocks, int width, bool colour) {
  const std::vector<Row> rows = rows_of(counts, formats, blocks);
  std::vector<std::string> names;
  for (const ChosenFormat& f : formats) names.push_back(f.name);
  for (const BlockColumn& b : blocks) names.push_back(b.name);
  if (rows.empty()) return "  (no values)\n";
  const std::uint64_t whole = counts.count();
  std::size_t label = 0, number = 0, rulers = 0;
  std::uint64_t most = 1;
  for (const Row& row : rows) {
    label = std::max(label, row.label.size());
    number = std::max(number, count_text(row.count, whole).size());
    most = std::max(most, row.count);
  }
  for (const std::string& name : names) rulers += name.size() + 1;
  const auto room = static_cast<std::size_t>(width > 0 ? width : 100);
  const std::size_t used = 2 + label + 2 + number + 2 + rulers + 1;
  const std::size_t longest = std::clamp<std::size_t>(room - std::min(room, used), 10, 60);

  std::string out = "  " + std::string(label + 2 + number + 2 + longest + 1, ' ');
  for (const std::string& name : names) out += name + " ";
  while (!out.empty() && out.back() == ' ') out.pop_back();
  out += "\n";
  for (const Row& row : rows) {
    // Whatever is there shows at least one mark.
    const auto scaled = static_cast<std::size_t>(static_cast<double>(row.count) / static_cast<double>(most) *
                                                 static_cast<double>(longest));
    const std::size_t length = row.count == 0 ? 0 : std::max<std::size_t>(1, scaled);
    std::string line = "  " + left_padded(row.label, label) + "  " + left_padded(count_text(row.count, whole), number) +
                       "  " + paint(std::string(length, '='), Colour::green, colour) +
                       std::string(longest - length + 1, ' ');
    for (std::size_t k = 0; k < names.size(); ++k) {
      const std::size_t name = names[k].size(), before = (name - 1) / 2;
      const std::string one(1, row.marks[k]);
      line += std::string(before, ' ') + paint(one, row.marks[k] == ':' ? Colour::yellow : Colour::blue, colour) +
              std::string(name - before, ' ');
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
  }
  out += "  # normal values of the format, : its subnormals";
  if (!blocks.empty()) out += "; of a block format what most values of the binade become";
  out += "\n";
  return out;
}

}  // namespace app
