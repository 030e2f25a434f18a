#include "cli/table.hpp"

#include <algorithm>

#include "cli/terminal.hpp"
#include "narrow/report/escape.hpp"

namespace app {
namespace {

std::string padded(const std::string& text, const std::string& painted, std::size_t width, Align align, bool last) {
  const std::string space(width - std::min(width, text.size()), ' ');
  if (align == Align::right) return space + painted;
  return last ? painted : painted + space;  // no spaces at the ends of lines
}

// A cell holds names of files and tensors: one line, and nothing but text.
std::string seen(const Cell& cell) { return narrow::visible(cell.text); }

}  // namespace

std::string Table::to_text(bool colour, std::size_t indent) const {
  std::vector<std::size_t> width;
  for (const std::string& title : header) width.push_back(title.size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], seen(row[i]).size());

  const auto line = [&](const auto& cell_text, const auto& cell_painted) {
    std::string out(indent, ' ');
    for (std::size_t i = 0; i < header.size(); ++i) {
      out += i == 0 ? "" : "  ";
      out += padded(cell_text(i), cell_painted(i), width[i], align[i], i + 1 == header.size());
    }
    return out + "\n";
  };
  std::string out = line([&](std::size_t i) { return header[i]; },
                         [&](std::size_t i) { return paint(header[i], Colour::dim, colour); });
  for (const auto& row : rows)
    out += line([&](std::size_t i) { return seen(row[i]); },
                [&](std::size_t i) { return colour && seen(row[i]) == row[i].text ? row[i].painted : seen(row[i]); });
  return out;
}

std::string Table::to_markdown() const {
  std::string out = "|", rule = "|";
  for (std::size_t i = 0; i < header.size(); ++i) {
    out += " " + header[i] + " |";
    rule += align[i] == Align::right ? "---:|" : "---|";
  }
  out += "\n" + rule + "\n";
  for (const auto& row : rows) {
    out += "|";
    for (const Cell& cell : row) out += " " + narrow::report::escaped_markdown(cell.text) + " |";
    out += "\n";
  }
  return out;
}

}  // namespace app
