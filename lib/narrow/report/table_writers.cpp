#include "narrow/report/table_writers.hpp"

#include <algorithm>
#include <cmath>

#include "narrow/base/version.hpp"
#include "narrow/report/escape.hpp"
#include "narrow/report/text_table.hpp"
#include "narrow/text/quote.hpp"

namespace narrow::report {
namespace {

// Numbers to the right, texts to the left.
TextTable laid_out(const Table& table) {
  TextTable out;
  for (const Column& column : table.columns) {
    out.header.push_back(visible(heading(column)));
    out.align.push_back(column.kind == ColumnKind::text ? Align::left : Align::right);
  }
  for (const auto& row : table.rows) {
    out.rows.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) out.rows.back().push_back(shown_text(table.columns[i], row[i]));
  }
  return out;
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

std::string to_markdown(const Table& table) { return laid_out(table).to_markdown(); }

std::string to_text(const Table& table) { return laid_out(table).to_text(false); }

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
