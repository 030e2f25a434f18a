// What a lesson may put on its page: text, sentences, tables, pictures, bits, and what it promises to be true.
// On a terminal all of it is printed; run by `narrow notebook` it is recorded with its line, and so finds its cell.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "narrow/format/format.hpp"
#include "narrow/report/plot.hpp"
#include "narrow/report/table.hpp"

namespace lesson {

using namespace narrow::report;  // tables and plots are what a page is made of

// std::source_location, which clang 14 does not have: where current() is called, also as a default argument.
class At {
 public:
  static constexpr At current(int line = __builtin_LINE(), const char* file = __builtin_FILE()) { return {line, file}; }
  constexpr int line() const { return line_; }
  constexpr const char* file_name() const { return file_; }

 private:
  constexpr At(int line, const char* file) : line_(line), file_(file) {}
  int line_;
  const char* file_;
};

// A pattern and the line it stands in. Implicit: print("x = {}", x) remembers where it was called.
// A helper that prints for its caller takes an At and passes it on: print({"x = {}", at}, x).
struct Pattern {
  std::string_view text;
  At at;
  template <std::convertible_to<std::string_view> T>
  Pattern(const T& pattern, At where = At::current()) : text(pattern), at(where) {}
};

// One thing to be put into a text.
class Value {
 public:
  Value(std::string_view text) : value_(std::string(text)) {}
  Value(const std::string& text) : value_(text) {}
  Value(const char* text) : value_(std::string(text)) {}
  Value(bool truth) : value_(std::string(truth ? "true" : "false")) {}
  Value(float number) : value_(number) {}
  Value(double number) : value_(number) {}
  template <std::integral T>
  Value(T number) {
    if constexpr (std::is_signed_v<T>) value_ = static_cast<std::int64_t>(number);
    else value_ = static_cast<std::uint64_t>(number);
  }
  const auto& get() const { return value_; }

 private:
  std::variant<std::string, std::int64_t, std::uint64_t, float, double> value_;
};

// The few forms of std::format that lessons need: {} (for a number the shortest text that reads back as the same
// number), {:.3} three significant digits, {:.2f} two after the point, {:>8} and {:<8} a width, {{ and }} for braces.
// Throws std::logic_error when pattern and values do not fit.
std::string format_values(std::string_view pattern, std::initializer_list<Value> values);

template <class... T>
std::string text(std::string_view pattern, const T&... values) {
  return format_values(pattern, {Value(values)...});
}

// ---- On the page ----

void print_text(std::string_view text, At at);  // as it is, letters of one width
void say_text(std::string_view text, At at);    // a sentence, in Markdown

template <class... T>
void print(Pattern pattern, const T&... values) {
  print_text(format_values(pattern.text, {Value(values)...}), pattern.at);
}

// A sentence with computed numbers in it: **bold**, `code`, and powers written 2^-24.
template <class... T>
void say(Pattern pattern, const T&... values) {
  say_text(format_values(pattern.text, {Value(values)...}), pattern.at);
}

void table(const narrow::report::Table& table, At at = At::current());
void picture(const narrow::report::Plot& plot, At at = At::current());

// The bits of a code in three colours (sign, exponent, mantissa), with the code and its value.
void bits(narrow::Code code, const narrow::Format& format, At at = At::current());

// What the lesson teaches, checked: when it is false the lesson ends with exit status 1.
void expect(bool holds, std::string_view teaches, At at = At::current());

// ---- Tables and pictures in fewer words ----

narrow::report::Table new_table(std::string title, std::vector<narrow::report::Column> columns, std::string note = "");
narrow::report::Series new_series(std::string name, narrow::report::Draw draw, narrow::report::PlotColour colour = {});
narrow::report::Plot new_plot(std::string title, std::string subtitle, std::vector<narrow::report::Panel> panels,
                      double panel_height = 0);

template <class T>
narrow::report::Cell new_cell(const T& value) {
  if constexpr (std::is_same_v<T, narrow::report::Cell>) return value;
  else if constexpr (std::is_floating_point_v<T>) return static_cast<double>(value);
  else if constexpr (std::is_integral_v<T>) return static_cast<std::int64_t>(value);
  else return std::string(value);
}

template <class... T>
void add_row(narrow::report::Table& table, const T&... cells) {
  table.add({new_cell(cells)...});
}

void add_text_row(narrow::report::Table& table, const std::vector<std::string>& cells);

inline void add_point(narrow::report::Series& series, double x, double y) {
  series.x.push_back(x);
  series.y.push_back(y);
}

// ---- Helpers ----

// "0 01111 0000000000": the fields of a code, those that the format has.
std::string fields(narrow::Code code, const narrow::Format& format);

// The path of a file in data/, found as narrow/tensor/find_data.hpp says. Throws narrow::Error that says where it
// looked.
std::string data_file(std::string_view name);

}  // namespace lesson
