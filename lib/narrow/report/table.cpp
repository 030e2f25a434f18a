#include "narrow/report/table.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>

namespace narrow::report {
namespace {

Column number_column(std::string name, std::string unit, ColumnKind kind, NumberStyle style, int digits) {
  return {std::move(name), std::move(unit), kind, style, digits};
}

std::string special_number(double value) { return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf"; }

// std::to_chars is correctly rounded and knows no locale, so the text is the same on every machine.
std::string characters(double value, std::chars_format format, int precision) {
  std::array<char, 400> buffer;  // 309 digits before the point at most
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format, precision);
  return {buffer.data(), end.ptr};
}

// Commas between groups of three digits before the point.
std::string grouped(std::string text) {
  const std::size_t first = text[0] == '-' ? 1 : 0;
  std::size_t end = text.find_first_not_of("0123456789", first);
  if (end == std::string::npos) end = text.size();
  else if (text[end] != '.') return text;  // 1e+20, inf
  for (std::size_t place = end; place > first + 3;) text.insert(place -= 3, 1, ',');
  return text;
}

bool fits(const Column& column, const Cell& cell) {
  if (std::holds_alternative<std::monostate>(cell)) return true;
  switch (column.kind) {
    case ColumnKind::text: return std::holds_alternative<std::string>(cell);
    case ColumnKind::integer: return std::holds_alternative<std::int64_t>(cell);
    case ColumnKind::real: return !std::holds_alternative<std::string>(cell);
  }
  return false;
}

std::string number_text(const Column& column, double value) {
  return column.style == NumberStyle::fixed ? fixed_text(value, column.digits) : significant_text(value, column.digits);
}

}  // namespace

Column text_column(std::string name) { return {std::move(name), "", ColumnKind::text, NumberStyle::significant, 0}; }
Column integer_column(std::string name, std::string unit) {
  return number_column(std::move(name), std::move(unit), ColumnKind::integer, NumberStyle::fixed, 0);
}
Column real_column(std::string name, std::string unit, int digits) {
  return number_column(std::move(name), std::move(unit), ColumnKind::real, NumberStyle::significant, digits);
}
Column fixed_column(std::string name, std::string unit, int decimals) {
  return number_column(std::move(name), std::move(unit), ColumnKind::real, NumberStyle::fixed, decimals);
}
Column power_column(std::string name, std::string unit) {
  return number_column(std::move(name), std::move(unit), ColumnKind::real, NumberStyle::power_of_two, 17);
}

void Table::add(std::vector<Cell> cells) {
  if (cells.size() != columns.size())
    throw std::logic_error("table " + name + ": a row of " + std::to_string(cells.size()) + " cells under " +
                           std::to_string(columns.size()) + " columns");
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!fits(columns[i], cells[i]))
      throw std::logic_error("table " + name + ": a cell of another kind in column " + columns[i].name);
    if (columns[i].kind != ColumnKind::real) continue;
    if (const auto* integer = std::get_if<std::int64_t>(&cells[i])) cells[i] = static_cast<double>(*integer);
  }
  rows.push_back(std::move(cells));
}

void check(const Table& table) {
  if (!detail::is_file_name(table.name)) throw std::logic_error("a table cannot be called '" + table.name + "'");
  if (table.columns.empty()) throw std::logic_error("table " + table.name + " has no columns");
}

bool detail::is_file_name(std::string_view name) {
  for (const char c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) return false;
  return !name.empty() && name.size() <= 80;
}

std::string fixed_text(double value, int decimals) {
  if (!std::isfinite(value)) return special_number(value);
  const std::string text = characters(value, std::chars_format::fixed, decimals);
  // A negative number that rounds to nothing has no sign.
  return text[0] == '-' && text.find_first_not_of("-0.") == std::string::npos ? text.substr(1) : text;
}

std::string significant_text(double value, int digits) {
  if (!std::isfinite(value)) return special_number(value);
  if (value == 0) return "0";
  const std::string scientific = characters(value, std::chars_format::scientific, digits - 1);
  const std::size_t e = scientific.find('e');
  const int exponent = std::stoi(scientific.substr(e + 1));
  const auto shortened = [](std::string text) {
    if (text.find('.') == std::string::npos) return text;
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
  };
  if (exponent < -4 || exponent >= std::max(digits, 6))
    return shortened(scientific.substr(0, e)) + "e" + std::to_string(exponent);
  return shortened(characters(value, std::chars_format::fixed, std::max(0, digits - 1 - exponent)));
}

std::string power_text(double value) {
  int exponent = 0;
  if (std::isfinite(value) && std::frexp(value, &exponent) == 0.5) return "2^" + std::to_string(exponent - 1);
  return significant_text(value, 4);
}

std::string count_text(std::int64_t value) { return grouped(std::to_string(value)); }

std::string percent_text(double share, int digits) {
  if (share > 0 && share < 1e-5) return significant_text(1e6 * share, digits) + " per million";
  // What is not all must not read as all.
  while (share < 1 && digits < 9 && significant_text(100 * share, digits) == "100") ++digits;
  return significant_text(100 * share, digits) + " %";
}

std::string shown_text(const Column& column, const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return count_text(*integer);
  const auto* value = std::get_if<double>(&cell);
  if (value == nullptr) return "-";
  return column.style == NumberStyle::power_of_two ? power_text(*value) : grouped(number_text(column, *value));
}

std::string plain_text(const Column& column, const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return std::to_string(*integer);
  const auto* value = std::get_if<double>(&cell);
  return value == nullptr ? "" : number_text(column, *value);
}

std::string heading(const Column& column) {
  return column.unit.empty() ? column.name : column.name + " [" + column.unit + "]";
}

}  // namespace narrow::report
