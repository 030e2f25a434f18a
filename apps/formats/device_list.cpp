#include "formats/device_list.hpp"

#include <algorithm>

#include "cli/terminal.hpp"
#include "narrow/format/device_table.hpp"
#include "narrow/text/text.hpp"

namespace app {
namespace {

bool has(std::string_view list, const narrow::Format& format) {
  bool found = false;
  narrow::for_each_format(list,
                          [&](std::string_view name) { found = found || narrow::require_format(name) == format; });
  return found;
}

std::vector<ChosenFormat> columns_of(const std::vector<ChosenFormat>& asked) {
  if (!asked.empty()) return asked;
  std::vector<ChosenFormat> columns = all_formats();
  std::erase_if(columns, [](const ChosenFormat& c) {
    return std::none_of(std::begin(narrow::device_table), std::end(narrow::device_table), [&](const auto& row) {
      return has(row.products, c.format) || has(row.scales, c.format) || has(row.conversions, c.format);
    });
  });
  return columns;
}

// No device of the table has an unknown conversion to one format and a known one to another.
std::string cell(const narrow::DeviceRow& row, const narrow::Format& format) {
  const std::string text = std::string(has(row.products, format) ? "P" : "") + (has(row.scales, format) ? "S" : "") +
                           (has(row.conversions, format) ? "C"
                            : row.conversions.empty()    ? "?"
                                                         : "");
  return text.empty() ? "-" : text;
}

}  // namespace

TextTable device_list(const std::vector<ChosenFormat>& formats, bool colour) {
  TextTable table{{"device", "parts", "year"}, {Align::left, Align::left, Align::right}, {}};
  const std::vector<ChosenFormat> columns = columns_of(formats);
  for (const ChosenFormat& c : columns) {
    table.header.push_back(c.name);
    table.align.push_back(Align::left);
  }
  table.header.emplace_back("source");
  table.align.push_back(Align::left);
  for (const narrow::DeviceRow& row : narrow::device_table) {
    std::vector<TextCell> cells{{std::string(row.name), paint(std::string(row.name), Colour::bold, colour)},
                            std::string(row.parts),
                            std::to_string(row.year)};
    for (const ChosenFormat& c : columns) cells.emplace_back(cell(row, c.format));
    cells.emplace_back(std::string(row.source));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

Json device_list_json(const std::vector<ChosenFormat>& formats) {
  const std::vector<ChosenFormat> columns = columns_of(formats);
  const auto names = [&](std::string_view list) {
    Json found = Json::array();
    for (const ChosenFormat& c : columns)
      if (has(list, c.format)) found.push_back(c.name);
    return found;
  };
  Json rows = Json::array();
  for (const narrow::DeviceRow& row : narrow::device_table)
    rows.push_back({{"device", row.name},
                    {"parts", row.parts},
                    {"year", row.year},
                    {"products", names(row.products)},
                    {"scales", names(row.scales)},
                    {"conversions", row.conversions.empty() ? Json() : names(row.conversions)},
                    {"source", row.source}});
  return rows;
}

}  // namespace app
