// An answer as numbers: rows under typed columns, with what is needed to make them again. Writes nothing.
//
//   report::Table table{"lost", "What FP16 loses", {report::text_column("tensor"), report::fixed_column("lost", "%")}, {}, "", {}};
//   table.add({std::string("head.weight"), 8.2});
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace narrow::report {

// How the numbers of a column are written, everywhere the same: on the page, in CSV, Markdown, JSON and as text.
enum class NumberStyle : std::uint8_t {
  significant,   // `digits` significant digits: 0.001234, 1.234e-9
  fixed,         // `digits` digits after the point: 39.4
  power_of_two,  // people read 2^-24 where the value is a power of two; CSV and JSON have the number with all its digits
};

// What the cells of a column hold.
enum class ColumnKind : std::uint8_t { text, integer, real };

// A heading, and how the cells below it are written.
struct Column {
  std::string name;
  std::string unit;  // "%", "dB", "bytes"; empty when there is none
  ColumnKind kind = ColumnKind::text;
  NumberStyle style = NumberStyle::significant;
  int digits = 4;
};

// Columns by what their cells hold.
Column text_column(std::string name);
Column integer_column(std::string name, std::string unit = "");
Column real_column(std::string name, std::string unit = "", int digits = 4);     // significant digits
Column fixed_column(std::string name, std::string unit = "", int decimals = 1);  // digits after the point
Column power_column(std::string name, std::string unit = "");                    // 2^k

// std::monostate: there is no value here (shown as a dash, empty in CSV, null in JSON).
using Cell = std::variant<std::monostate, std::string, std::int64_t, double>;

// The parameters of a run in the order of their declaration, as text.
using ParameterTexts = std::vector<std::pair<std::string, std::string>>;

// Rows under columns.
struct Table {
  std::string name;   // of its file: NAME.csv; letters, digits and _
  std::string title;  // one line for people
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  std::string note;           // what must be known to read it; may be empty
  ParameterTexts parameters;  // filled by whoever runs the experiment

  // One row. Throws std::logic_error when the cells are not those of the columns (an integer may stand for a real).
  void add(std::vector<Cell> cells);
};

namespace detail {
bool is_file_name(std::string_view name);  // letters, digits and _, at most 80
}

// Throws std::logic_error: no name, a name that is no file name, or no column.
void check(const Table& table);

// Text of one number with that many digits after the point, or significant digits; the same on every machine.
// 0.1 + 0.2 with 3 significant digits: "0.3"; very small or large: "1.2e-7". Not finite: "inf", "-inf", "nan".
std::string fixed_text(double value, int decimals);
std::string significant_text(double value, int digits);
std::string power_text(double value);        // "2^-24"; another value: 4 significant digits
std::string count_text(std::int64_t value);  // "609,792"
// A share of 0.394 is "39.4 %", 3.2e-7 is "0.32 per million", and 0.99997 is "99.997 %" and not 100.
std::string percent_text(double share, int digits = 3);

// A cell as people read it: digits grouped by comma, powers as 2^k, "-" where there is none.
std::string shown_text(const Column& column, const Cell& cell);
// A cell as programs read it: no commas, "" where there is none.
std::string plain_text(const Column& column, const Cell& cell);
// "share [%]", or the name where there is no unit.
std::string heading(const Column& column);

}  // namespace narrow::report
