#include "scale_log.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "narrow/base/error.hpp"
#include "narrow/text/quote.hpp"

namespace app {
namespace {

using narrow::GradientLog;

constexpr const char* accepted =
    "accepted: JSON rows [step, loss, scale, found_inf, ...] or objects, or CSV with a line of names (step,amax or "
    "step,found_inf)";

// A text, a place in it, and how to complain about that place.
class Reader {
 public:
  Reader(const std::string& text, const std::string& name) : text_(text), name_(name) {}

  std::size_t at = 0;
  bool at_end() const { return at >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at]; }
  std::string_view slice(std::size_t begin, std::size_t end) const {
    return std::string_view(text_).substr(begin, end - begin);
  }
  std::size_t find_first_of(const char* characters) const {
    return std::min(text_.find_first_of(characters, at), text_.size());
  }

  void skip_blanks() {
    while (!at_end() && (peek() == ' ' || peek() == '\t' || peek() == '\r' || peek() == '\n')) ++at;
  }

  [[noreturn]] void fail(std::size_t where, const std::string& what) const {
    std::size_t line = 1, column = 1;
    for (std::size_t i = 0; i < where && i < text_.size(); ++i) {
      if (text_[i] == '\n') ++line, column = 1;
      else ++column;
    }
    throw narrow::Error(name_ + ": line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + what);
  }

 private:
  const std::string& text_;
  const std::string& name_;
};

// What may be known of one step; where each value stood, for messages.
struct Cell {
  double value = 0;
  std::size_t where = 0;
};
struct Row {
  std::optional<Cell> step, amax, found_inf, scale;

  std::optional<Cell>* find(std::string_view name) {
    if (name == "step") return &step;
    if (name == "amax") return &amax;
    if (name == "found_inf" || name == "skipped") return &found_inf;
    if (name == "scale") return &scale;
    return nullptr;
  }
};

// Checks a row and adds it; every row must have what the first has.
class Collector {
 public:
  explicit Collector(const Reader& reader) : reader_(reader) {}

  void add(const Row& row, std::size_t where) {
    const bool first = log_.steps.empty();
    if (!row.amax && !row.found_inf)
      reader_.fail(where, std::string("this row has neither amax nor found_inf; ") + accepted);
    if (!first && (row.amax.has_value() == log_.amax.empty() || row.found_inf.has_value() == log_.found_inf.empty() ||
                   row.scale.has_value() == log_.scale.empty() || row.step.has_value() != has_steps_))
      reader_.fail(where, "this row has other columns than the first");
    has_steps_ = row.step.has_value();
    add_step(row);
    if (row.amax) log_.amax.push_back(amax(*row.amax));
    if (row.found_inf) log_.found_inf.push_back(found_inf(*row.found_inf));
    if (row.scale) log_.scale.push_back(scale(*row.scale));
  }

  GradientLog finish() {
    if (log_.steps.empty()) reader_.fail(reader_.at, std::string("no steps; ") + accepted);
    return std::move(log_);
  }

 private:
  void add_step(const Row& row) {
    if (!row.step) return log_.steps.push_back(static_cast<std::int64_t>(log_.steps.size()));
    const double step = row.step->value;
    if (!(std::abs(step) <= 1e15) || step != std::floor(step)) reader_.fail(row.step->where, "a step is an integer");
    const auto number = static_cast<std::int64_t>(step);
    if (!log_.steps.empty() && number <= log_.steps.back())
      reader_.fail(row.step->where, "step " + std::to_string(number) + " follows step " +
                                        std::to_string(log_.steps.back()) + "; steps ascend");
    log_.steps.push_back(number);
  }
  // Inf and NaN are what a diverged run logs: they overflow at every scale.
  float amax(const Cell& c) const {
    if (c.value < 0) reader_.fail(c.where, "amax is a largest magnitude: 0 or more, inf or nan");
    if (std::isnan(c.value)) return std::numeric_limits<float>::quiet_NaN();
    return c.value > 0x1.fffffep+127 ? std::numeric_limits<float>::infinity() : static_cast<float>(c.value);
  }
  std::uint8_t found_inf(const Cell& c) const {
    if (!(c.value >= 0) || std::isinf(c.value)) reader_.fail(c.where, "found_inf is 0 or 1");
    return c.value != 0 ? 1 : 0;
  }
  float scale(const Cell& c) const {
    const bool fits = c.value > 0 && c.value <= 0x1.fffffep+127 && static_cast<float>(c.value) > 0;
    if (!fits) reader_.fail(c.where, "a loss scale is a positive finite number");
    return static_cast<float>(c.value);
  }

  const Reader& reader_;
  GradientLog log_;
  bool has_steps_ = false;
};

// A whole word as a number: 1, -2.5e-3, inf, nan, true, false.
std::optional<double> number_of(std::string_view word) {
  if (word == "true" || word == "True") return 1;
  if (word == "false" || word == "False") return 0;
  if (word == "NaN" || word == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (word == "Infinity" || word == "inf") return std::numeric_limits<double>::infinity();
  if (word == "-Infinity" || word == "-inf") return -std::numeric_limits<double>::infinity();
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (end != word.data() + word.size() || word.empty()) return {};
  if (error == std::errc::result_out_of_range) {  // beyond a double: as large, or as small, as it gets
    const bool small = word.find("e-") != std::string_view::npos || word.find("E-") != std::string_view::npos;
    return small            ? 0
           : word[0] == '-' ? -std::numeric_limits<double>::infinity()
                            : std::numeric_limits<double>::infinity();
  }
  if (error != std::errc{}) return {};
  const char first = word[word[0] == '-' ? 1 : 0];
  return first >= '0' && first <= '9' ? std::optional(value) : std::nullopt;
}

class JsonLog {
 public:
  explicit JsonLog(Reader& reader) : in_(reader), rows_(reader) {}

  GradientLog read() {
    expect('[', "an array of rows");
    in_.skip_blanks();
    if (in_.peek() != ']') {
      do read_row();
      while (separator(']'));
    }
    ++in_.at;
    in_.skip_blanks();
    if (!in_.at_end()) in_.fail(in_.at, "text after the end of the array");
    return rows_.finish();
  }

 private:
  void expect(char c, const char* what) {
    in_.skip_blanks();
    if (in_.peek() != c) in_.fail(in_.at, std::string("expected ") + what);
    ++in_.at;
  }

  // After an element: true at a comma, false at the end (which stays).
  bool separator(char end) {
    in_.skip_blanks();
    if (in_.peek() == end) return false;
    if (in_.peek() != ',') in_.fail(in_.at, std::string("expected ',' or '") + end + "'");
    ++in_.at;
    return true;
  }

  void read_row() {
    in_.skip_blanks();
    const std::size_t where = in_.at;
    Row row;
    if (in_.peek() == '[') read_array(row, where);
    else if (in_.peek() == '{') read_object(row);
    else in_.fail(where, std::string("a row is an array or an object; ") + accepted);
    rows_.add(row, where);
  }

  // [step, loss, scale, found_inf, ...]
  void read_array(Row& row, std::size_t where) {
    std::optional<Cell>* const places[] = {&row.step, nullptr, &row.scale, &row.found_inf};
    std::size_t count = 0;
    ++in_.at;
    in_.skip_blanks();
    if (in_.peek() != ']') {
      do {
        in_.skip_blanks();
        const std::size_t at = in_.at;
        const std::optional<double> value = read_value(1);
        std::optional<Cell>* place = count < 4 ? places[count] : nullptr;
        if (place != nullptr && !value) in_.fail(at, "expected a number");
        if (place != nullptr) *place = Cell{*value, at};
        ++count;
      } while (separator(']'));
    }
    ++in_.at;
    if (count < 4)
      in_.fail(where, "a row of " + std::to_string(count) + " values; expected [step, loss, scale, found_inf, ...]");
  }

  void read_object(Row& row) {
    ++in_.at;
    in_.skip_blanks();
    if (in_.peek() != '}') {
      do {
        in_.skip_blanks();
        const std::size_t key_at = in_.at;
        const std::string key = read_string();
        expect(':', "':'");
        in_.skip_blanks();
        const std::size_t at = in_.at;
        const std::optional<double> value = read_value(1);
        std::optional<Cell>* place = row.find(key);
        if (place == nullptr) continue;
        if (*place) in_.fail(key_at, "a second " + narrow::quote(key) + " in one row");
        if (!value) in_.fail(at, key + " is a number");
        *place = Cell{*value, at};
      } while (separator('}'));
    }
    ++in_.at;
  }

  std::string read_string() {
    if (in_.peek() != '"') in_.fail(in_.at, "expected a key in double quotes");
    const std::size_t begin = ++in_.at;
    while (in_.peek() != '"') {
      if (in_.at_end() || in_.peek() == '\n') in_.fail(begin - 1, "a string without an end");
      in_.at += in_.peek() == '\\' ? 2 : 1;
    }
    return std::string(in_.slice(begin, in_.at++));
  }

  // Any JSON value; a number (or truth value) is returned, others are passed over.
  std::optional<double> read_value(int depth) {
    constexpr int deepest = 64;
    in_.skip_blanks();
    if (depth > deepest) in_.fail(in_.at, "nested too deep");
    const char c = in_.peek();
    if (c == '"') return read_string(), std::nullopt;
    if (c == '[' || c == '{') return skip_nested(depth), std::nullopt;
    const std::size_t begin = in_.at;
    in_.at = in_.find_first_of(",]} \t\r\n");
    const std::string_view word = in_.slice(begin, in_.at);
    if (word == "null") return {};
    const std::optional<double> value = number_of(word);
    if (!value) in_.fail(begin, word.empty() ? "expected a value" : narrow::quote(word) + " is no JSON value");
    return value;
  }

  void skip_nested(int depth) {
    const bool object = in_.peek() == '{';
    const char end = object ? '}' : ']';
    ++in_.at;
    in_.skip_blanks();
    if (in_.peek() != end) {
      do {
        in_.skip_blanks();
        if (object) read_string(), expect(':', "':'");
        read_value(depth + 1);
      } while (separator(end));
    }
    ++in_.at;
  }

  Reader& in_;
  Collector rows_;
};

class CsvLog {
 public:
  explicit CsvLog(Reader& reader) : in_(reader), rows_(reader) {}

  GradientLog read() {
    std::vector<std::string> names;
    while (next_line()) {
      const std::vector<Field> fields = split_line();
      if (names.empty()) names = read_names(fields);
      else add_row(names, fields);
    }
    return rows_.finish();
  }

 private:
  struct Field {
    std::string_view text;
    std::size_t where;
  };

  // Finds the next line that is not empty and no comment.
  bool next_line() {
    while (!in_.at_end()) {
      begin_ = in_.at;
      end_ = in_.find_first_of("\n");
      in_.at = end_ + 1;
      const std::string_view line = in_.slice(begin_, end_);
      if (line.find_first_not_of(" \t\r") != std::string_view::npos && line[0] != '#') return true;
    }
    return false;
  }

  std::vector<Field> split_line() {
    const std::string_view line = in_.slice(begin_, end_);
    const char separator =
        line.find(',') == std::string_view::npos && line.find('\t') != std::string_view::npos ? '\t' : ',';
    std::vector<Field> fields;
    for (std::size_t i = 0; i <= line.size();) {
      const std::size_t stop = std::min(line.find(separator, i), line.size());
      std::size_t first = i, last = stop;
      while (first < last && (line[first] == ' ' || line[first] == '\t')) ++first;
      while (last > first && (line[last - 1] == ' ' || line[last - 1] == '\t' || line[last - 1] == '\r')) --last;
      fields.push_back({line.substr(first, last - first), begin_ + first});
      i = stop + 1;
    }
    return fields;
  }

  std::vector<std::string> read_names(const std::vector<Field>& fields) {
    std::vector<std::string> names;
    Row known;
    bool useful = false;
    for (const Field& field : fields) {
      if (std::optional<Cell>* place = known.find(field.text)) {
        if (*place) in_.fail(field.where, "a second column " + narrow::quote(field.text));
        *place = Cell{};
        useful = useful || field.text != "step";
      }
      names.emplace_back(field.text);
    }
    if (!useful || (!known.amax && !known.found_inf))
      in_.fail(begin_, "no column amax or found_inf in the line of names " + narrow::quote(in_.slice(begin_, end_)) +
                           "; " + accepted);
    return names;
  }

  void add_row(const std::vector<std::string>& names, const std::vector<Field>& fields) {
    if (fields.size() != names.size())
      in_.fail(begin_, std::to_string(fields.size()) + " values under " + std::to_string(names.size()) + " names");
    Row row;
    for (std::size_t k = 0; k < names.size(); ++k) {
      std::optional<Cell>* place = row.find(names[k]);
      if (place == nullptr) continue;
      const std::optional<double> value = number_of(fields[k].text);
      if (!value) in_.fail(fields[k].where, narrow::quote(fields[k].text) + " is no number for " + names[k]);
      *place = Cell{*value, fields[k].where};
    }
    rows_.add(row, begin_);
  }

  Reader& in_;
  Collector rows_;
  std::size_t begin_ = 0, end_ = 0;
};

}  // namespace

GradientLog parse_scale_log(const std::string& text, const std::string& name) {
  Reader reader(text, name);
  reader.skip_blanks();
  const char first = reader.peek();
  reader.at = 0;
  if (first == '[' || first == '{') return JsonLog(reader).read();
  return CsvLog(reader).read();
}

GradientLog read_scale_log(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || file.bad() || (text.fail() && file.peek() != std::ifstream::traits_type::eof()))
    throw narrow::Error("cannot read " + narrow::quote(path) + ": " +
                        (errno != 0 ? std::strerror(errno) : "not a file") + "; give a log of steps as JSON or CSV");
  return parse_scale_log(text.str(), path);
}

}  // namespace app
