#include "narrow/report/text_table.hpp"

#include <algorithm>

#include "narrow/report/escape.hpp"
#include "narrow/text/quote.hpp"

namespace narrow::report {
namespace {

// Code points, not bytes: what an aligned column counts.
std::size_t length_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, const std::string& painted, std::size_t width, Align align, bool last) {
  const std::string space(width - std::min(width, length_of(text)), ' ');
  if (align == Align::right) return space + painted;
  return last ? painted : painted + space;  // no spaces at the ends of lines
}

// A cell holds names of files and tensors: one line, and nothing but text.
std::string seen(const TextCell& cell) { return visible(cell.text); }

}  // namespace

std::string TextTable::to_text(bool colour, std::size_t indent) const {
  std::vector<std::size_t> width;
  for (const std::string& title : header) width.push_back(length_of(title));
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], length_of(seen(row[i])));

  const auto line = [&](const auto& cell_text, const auto& cell_painted) {
    std::string out(indent, ' ');
    for (std::size_t i = 0; i < header.size(); ++i) {
      out += i == 0 ? "" : "  ";
      out += padded(cell_text(i), cell_painted(i), width[i], align[i], i + 1 == header.size());
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out + "\n";
  };
  std::string out = line([&](std::size_t i) { return header[i]; },
                         [&](std::size_t i) { return colour ? "\033[2m" + header[i] + "\033[0m" : header[i]; });
  for (const auto& row : rows)
    out += line([&](std::size_t i) { return seen(row[i]); },
                [&](std::size_t i) { return colour && seen(row[i]) == row[i].text ? row[i].painted : seen(row[i]); });
  return out;
}

std::string TextTable::to_markdown() const {
  std::string out = "|", rule = "|";
  for (std::size_t i = 0; i < header.size(); ++i) {
    out += " " + escaped_markdown(header[i]) + " |";
    rule += align[i] == Align::right ? "---:|" : "---|";
  }
  out += "\n" + rule + "\n";
  for (const auto& row : rows) {
    out += "|";
    for (const TextCell& cell : row) out += " " + escaped_markdown(cell.text) + " |";
    out += "\n";
  }
  return out;
}

}  // namespace narrow::report
