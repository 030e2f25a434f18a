#include "narrow/report/table_writers.hpp"

#include <algorithm>
#include <cmath>

#include "narrow/base/version.hpp"
#include "narrow/report/escape.hpp"

namespace narrow::report {
namespace {

bool is_number(const Column& column) { return column.kind != ColumnKind::text; }

// Code points, not bytes: what an aligned column counts.
std::size_t length_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string json_cell(const Column& column, const Cell& cell) {
  if (std::holds_alternative<std::monostate>(cell)) return "null";
  if (const auto* text = std::get_if<std::string>(&cell)) return json_string(*text);
  const auto* value = std::get_if<double>(&cell);
  const std::string text = plain_text(column, cell);
  return value != nullptr && !std::isfinite(*value) ? json_string(text) : text;
}

}  // namespace

std::string to_csv(const Table& table, const std::string& source) {
  std::string out = csv_comment(std::string("narrow ") + version + ": " + source);
  out += csv_comment(table.title);
  std::string parameters;
  for (const auto& [name, value] : table.parameters) parameters += " " + name + "=" + value;
  if (!parameters.empty()) out += csv_comment("parameters:" + parameters);
  std::string line;
  for (const Column& column : table.columns) line += (line.empty() ? "" : ",") + csv_field(heading(column));
  out += line + "\n";
  for (const auto& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      out += (i == 0 ? "" : ",") + csv_field(plain_text(table.columns[i], row[i]));
    out += "\n";
  }
  return out;
}

std::string to_markdown(const Table& table) {
  std::string head = "|", rule = "|", rows;
  for (const Column& column : table.columns) {
    head += " " + escaped_markdown(heading(column)) + " |";
    rule += is_number(column) ? "---:|" : "---|";
  }
  for (const auto& row : table.rows) {
    rows += "|";
    for (std::size_t i = 0; i < row.size(); ++i)
      rows += " " + escaped_markdown(shown_text(table.columns[i], row[i])) + " |";
    rows += "\n";
  }
  return head + "\n" + rule + "\n" + rows;
}

std::string to_text(const Table& table) {
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& column : table.columns) lines[0].push_back(visible(heading(column)));
  for (const auto& row : table.rows) {
    lines.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) lines.back().push_back(visible(shown_text(table.columns[i], row[i])));
  }
  std::vector<std::size_t> widths(table.columns.size(), 0);
  for (const auto& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], length_of(line[i]));
  std::string out;
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string space(widths[i] - length_of(line[i]), ' ');
      text += (i == 0 ? "" : "  ") + (is_number(table.columns[i]) ? space + line[i] : line[i] + space);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  }
  return out;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const auto [point, length] = first_code_point(text);
    if (length == 0) out += "\\uFFFD";
    else if (point == '"' || point == '\\') out += {'\\', text[0]};
    else if (point < ' ') out += "\\u00" + visible(text.substr(0, 1)).substr(2);  // \xNN with four digits
    else out += visible(text.substr(0, length));
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out + "\"";
}

std::string to_json(const Table& table) {
  std::string out = "{\"name\": " + json_string(table.name) + ", \"title\": " + json_string(table.title) +
                    ", \"note\": " + json_string(table.note) + ",\n \"columns\": [";
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    out += (i == 0 ? "" : ", ") + std::string("{\"name\": ") + json_string(table.columns[i].name) +
           ", \"unit\": " + json_string(table.columns[i].unit) + "}";
  out += "],\n \"rows\": [";
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    out += r == 0 ? "\n  [" : ",\n  [";
    for (std::size_t i = 0; i < table.columns.size(); ++i)
      out += (i == 0 ? "" : ", ") + json_cell(table.columns[i], table.rows[r][i]);
    out += "]";
  }
  return out + "]}";
}

}  // namespace narrow::report
