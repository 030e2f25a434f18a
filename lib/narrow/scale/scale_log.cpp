#include "narrow/scale/scale_log.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "narrow/base/error.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {
namespace {

constexpr const char* accepted =
    "accepted: JSON rows [step, loss, scale, found_inf, ...] or objects, in an array or one a line; CSV with a line of "
    "names (step and amax, found_inf or scale); logs.json and histograms.json of data/torch/record_gpt.py";

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
    throw Error(name_ + ": line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + what);
  }

 private:
  const std::string& text_;
  const std::string& name_;
};

// What may be known of one step; where each value stood, for messages. No value: the column is there, but not recorded.
struct Cell {
  std::optional<double> value;
  std::size_t where = 0;
};
struct Row {
  std::optional<Cell> step, amax, found_inf, skipped, scale;

  std::optional<Cell>* find(std::string_view name) {
    if (name == "step") return &step;
    if (name == "amax" || name == "grad_amax") return &amax;
    if (name == "found_inf" || name == "overflow") return &found_inf;
    if (name == "skipped") return &skipped;
    if (name == "scale" || name == "loss_scale") return &scale;
    return nullptr;
  }
  // A scaler that never skips has skipped none of its overflows: found_inf, where it is there, says more.
  const std::optional<Cell>& overflow() const { return found_inf ? found_inf : skipped; }
};

// Checks a row and adds it; every row must have what the first has.
class Collector {
 public:
  explicit Collector(const Reader& reader) : reader_(reader) {}

  void add(const Row& row, std::size_t where) {
    const std::optional<Cell>& overflow = row.overflow();
    if (!row.amax && !overflow && !row.scale)
      reader_.fail(where, std::string("this row has neither amax nor found_inf nor scale; ") + accepted);
    if (!log_.steps.empty() &&
        (row.amax.has_value() == log_.amax.empty() || overflow.has_value() == log_.found_inf.empty() ||
         row.scale.has_value() == log_.scale.empty() || row.step.has_value() != has_steps_))
      reader_.fail(where, "this row has other columns than the first");
    has_steps_ = row.step.has_value();
    add_step(row);
    if (row.amax) log_.amax.push_back(amax(*row.amax));
    if (overflow) log_.found_inf.push_back(found_inf(*overflow));
    if (row.scale) log_.scale.push_back(scale(*row.scale));
  }

  GradientLog finish() {
    if (log_.steps.empty()) reader_.fail(reader_.at, std::string("no steps; ") + accepted);
    return std::move(log_);
  }

 private:
  void add_step(const Row& row) {
    if (!row.step) return log_.steps.push_back(static_cast<std::int64_t>(log_.steps.size()));
    const double step = row.step->value.value_or(0.5);
    if (!(std::abs(step) <= 1e15) || step != std::floor(step)) reader_.fail(row.step->where, "a step is an integer");
    const auto number = static_cast<std::int64_t>(step);
    if (!log_.steps.empty() && number <= log_.steps.back())
      reader_.fail(row.step->where, "step " + std::to_string(number) + " follows step " +
                                        std::to_string(log_.steps.back()) + "; steps ascend");
    log_.steps.push_back(number);
  }
  // Inf and NaN are what a diverged run logs: they overflow at every scale.
  float amax(const Cell& c) const {
    if (!c.value) return GradientLog::no_amax;
    if (*c.value < 0) reader_.fail(c.where, "amax is a largest magnitude: 0 or more, inf or nan");
    if (std::isnan(*c.value)) return std::numeric_limits<float>::quiet_NaN();
    return *c.value > 0x1.fffffep+127 ? std::numeric_limits<float>::infinity() : static_cast<float>(*c.value);
  }
  std::uint8_t found_inf(const Cell& c) const {
    if (!c.value) return GradientLog::not_recorded;
    if (!(*c.value >= 0) || std::isinf(*c.value)) reader_.fail(c.where, "found_inf is 0 or 1");
    return *c.value != 0 ? 1 : 0;
  }
  float scale(const Cell& c) const {
    const double scale = c.value.value_or(0);
    const bool fits = scale > 0 && scale <= 0x1.fffffep+127 && static_cast<float>(scale) > 0;
    if (!fits) reader_.fail(c.where, "a loss scale is a positive finite number");
    return static_cast<float>(scale);
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

// Rows in an array or one after the other, or one of the documents that record_gpt.py writes.
class JsonLog {
 public:
  JsonLog(Reader& reader, const std::string& run) : in_(reader), rows_(reader), run_(run) {}

  ScaleLog read() {
    in_.skip_blanks();
    const std::size_t begin = in_.at;
    if (in_.peek() == '{') {
      const Keys keys = read_keys();
      in_.skip_blanks();
      for (const char* document : {"runs", "steps", "rows"})
        if (find(keys, document) != nullptr && !in_.at_end()) in_.fail(in_.at, "text after the end of the object");
      if (const std::size_t* runs = find(keys, "runs")) return read_runs(*runs);
      if (const std::size_t* passes = find(keys, "steps")) return read_passes(*passes);
      if (find(keys, "rows") != nullptr) return {read_run(keys), ""};
    } else {
      ++in_.at;
      in_.skip_blanks();
      if (in_.peek() == '[' || in_.peek() == '{' || in_.peek() == ']') {
        in_.at = begin;
        for_each_element([&] { read_row(default_columns); });
        if (!in_.at_end()) in_.fail(in_.at, "text after the end of the array");
        return {rows_.finish(), ""};
      }
    }
    for (in_.at = begin; !in_.at_end(); in_.skip_blanks()) read_row(default_columns);
    return {rows_.finish(), ""};
  }
  // Whether a run was asked for and there was none to choose.
  bool ignored_run() const { return !run_.empty() && !has_runs_; }

 private:
  using Keys = std::vector<std::pair<std::string, std::size_t>>;  // of an object, and where their values stand
  inline static const std::vector<std::string> default_columns = {"step", "loss", "scale", "found_inf"};

  // Names in a message: quoted where they come from the file, and not all of very many.
  static std::string some_of(const std::vector<std::string>& names, bool from_file) {
    constexpr std::size_t most = 12, longest = 500;
    std::string list;
    std::size_t i = 0;
    for (; i < names.size() && i < most && list.size() < longest; ++i)
      list += (i == 0 ? "" : ", ") + (from_file ? quote(names[i]) : names[i]);
    return list + (names.size() > i ? ", ..." : "");
  }
  static const std::size_t* find(const Keys& keys, std::string_view name) {
    for (const auto& [key, where] : keys)
      if (key == name) return &where;
    return nullptr;
  }

  // Calls each() at every element of the array that begins here; ends behind it and the blanks that follow.
  template <class Each>
  void for_each_element(const Each& each) {
    expect('[', "an array");
    in_.skip_blanks();
    if (in_.peek() != ']') {
      do in_.skip_blanks(), each();
      while (separator(']'));
    }
    ++in_.at;
    in_.skip_blanks();
  }

  Keys read_keys() {
    Keys keys;
    std::set<std::string> seen;
    expect('{', "an object");
    in_.skip_blanks();
    if (in_.peek() != '}') {
      do {
        in_.skip_blanks();
        const std::size_t key_at = in_.at;
        const std::string key = read_string();
        if (!seen.insert(key).second) in_.fail(key_at, "a second " + quote(key) + " in one object");
        expect(':', "':'");
        in_.skip_blanks();
        keys.emplace_back(key, in_.at);
        read_value(1);
      } while (separator('}'));
    }
    ++in_.at;
    return keys;
  }
  std::string string_at(const Keys& keys, std::string_view name) {
    const std::size_t* where = find(keys, name);
    if (where == nullptr || in_.slice(*where, *where + 1) != "\"") return "";
    in_.at = *where;
    return read_string();
  }
  std::optional<double> number_at(const Keys& keys, std::string_view name) {
    const std::size_t* where = find(keys, name);
    if (where == nullptr) return {};
    in_.at = *where;
    return read_value(1);
  }

  // {"runs": [{"name": .., "dtype": .., "columns": [..], "rows": [[..], ..]}, ..]}: the run asked for, or the first.
  ScaleLog read_runs(std::size_t where) {
    std::vector<Keys> runs;
    std::vector<std::string> names;
    in_.at = where;
    for_each_element([&] { runs.push_back(read_keys()); });
    for (const Keys& keys : runs) names.push_back(string_at(keys, "name"));
    if (runs.empty()) in_.fail(where, "no runs");
    has_runs_ = true;
    const auto chosen = run_.empty() ? names.begin() : std::find(names.begin(), names.end(), run_);
    const std::string list = some_of(names, true);
    if (chosen == names.end()) in_.fail(where, "no run " + quote(run_) + "; it has: " + list);
    const std::string about = "run " + quote(*chosen) + ", the first of " + list + " (FILE:RUN takes another)";
    return {read_run(runs[static_cast<std::size_t>(chosen - names.begin())]), run_.empty() ? about : ""};
  }

  GradientLog read_run(const Keys& keys) {
    const std::size_t *rows = find(keys, "rows"), *columns = find(keys, "columns");
    if (rows == nullptr) in_.fail(keys.empty() ? 0 : keys.front().second, "this run has no \"rows\"");
    std::vector<std::string> names = default_columns;
    if (columns != nullptr) {
      names.clear();
      in_.at = *columns;
      for_each_element([&] { names.push_back(read_string()); });
    }
    const std::string type = string_at(keys, "dtype");
    in_.at = *rows;
    for_each_element([&] { read_row(names); });
    GradientLog log = rows_.finish();
    log.is_fp16 = type.empty() || type == "float16";
    return log;
  }

  // {"steps": [{"step": .., "scale": .., "dtype": .., "tensors": [{"kind": "grad", "amax": .., "inf": .., "nan":
  // ..}]}]}: of each step the first pass with gradients. What is not finite in a wider format than FP16 overflows at
  // every scale; in FP16 it may be the scale's doing, and then amax is not known.
  ScaleLog read_passes(std::size_t where) {
    in_.at = where;
    std::optional<double> last;
    std::size_t count = 0, at = where;
    for_each_element([&] {
      at = in_.at;
      const Keys pass = read_keys();
      const std::size_t end = in_.at, *tensors = find(pass, "tensors");
      const std::optional<double> step = number_at(pass, "step");
      const double scale = number_at(pass, "scale").value_or(1);
      const std::string type = string_at(pass, "dtype");
      double amax = 0, not_finite = 0;
      bool has_gradients = false;
      in_.at = tensors == nullptr ? end : *tensors;
      if (tensors != nullptr)
        for_each_element([&] {
          const Keys tensor = read_keys();
          const std::size_t next = in_.at;
          const std::string kind = string_at(tensor, "kind");
          if (kind == "grad" || kind == "actgrad") {
            has_gradients = true;
            amax = std::max(amax, number_at(tensor, "amax").value_or(0));
            not_finite += number_at(tensor, "inf").value_or(0) + number_at(tensor, "nan").value_or(0);
          }
          in_.at = next;
        });
      in_.at = end;
      if (!has_gradients || (step && last && *step == *last)) return;
      last = step;
      ++count;
      Row row;
      if (step) row.step = Cell{step, at};
      row.amax = Cell{amax / scale, at};
      if (not_finite > 0)
        row.amax->value = type == "float16" ? std::nullopt : std::optional(std::numeric_limits<double>::infinity());
      rows_.add(row, at);
    });
    if (count == 0) in_.fail(where, "no pass with gradients (kinds grad and actgrad)");
    return {rows_.finish(), "the largest of all gradients of " + std::to_string(count) + " passes"};
  }

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

  void read_row(const std::vector<std::string>& columns) {
    in_.skip_blanks();
    const std::size_t where = in_.at;
    Row row;
    if (in_.peek() == '[') read_array(row, columns, where);
    else if (in_.peek() == '{') read_object(row);
    else in_.fail(where, "a row is an array or an object; " + std::string(accepted));
    rows_.add(row, where);
  }

  void set(std::optional<Cell>* place, const std::string& name, std::size_t where) {
    const std::optional<double> value = read_value(1);
    if (place == nullptr) return;
    if (!value && in_.slice(where, where + 4) != "null") in_.fail(where, name + " is a number");
    *place = Cell{value, where};
  }

  void read_array(Row& row, const std::vector<std::string>& columns, std::size_t where) {
    std::size_t count = 0;
    for_each_element([&] {
      static const std::string none;
      const std::string& name = count < columns.size() ? columns[count] : none;
      set(row.find(name), name, in_.at);
      ++count;
    });
    if (count >= columns.size()) return;
    in_.fail(where, "a row of " + std::to_string(count) + " values; expected [" +
                        some_of(columns, &columns != &default_columns) + ", ...]");
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
        std::optional<Cell>* place = row.find(key);
        if (place != nullptr && *place) in_.fail(key_at, "a second " + quote(key) + " in one row");
        set(place, key, in_.at);
      } while (separator('}'));
    }
    ++in_.at;
  }

  std::string read_string() {
    if (in_.peek() != '"') in_.fail(in_.at, "expected a string in double quotes");
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
    if (c == '"') {  // numbers that JSON cannot hold: "inf", "nan"
      const std::optional<double> value = number_of(read_string());
      return value && !std::isfinite(*value) ? value : std::nullopt;
    }
    if (c == '[' || c == '{') return skip_nested(depth), std::nullopt;
    const std::size_t begin = in_.at;
    in_.at = in_.find_first_of(",]} \t\r\n");
    const std::string_view word = in_.slice(begin, in_.at);
    if (word == "null") return {};
    const std::optional<double> value = number_of(word);
    if (!value) in_.fail(begin, word.empty() ? "expected a value" : quote(word) + " is no JSON value");
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
  const std::string& run_;
  bool has_runs_ = false;
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
        if (*place) in_.fail(field.where, "a second column " + quote(field.text));
        *place = Cell{};
        useful = useful || field.text != "step";
      }
      names.emplace_back(field.text);
    }
    if (!useful)
      in_.fail(begin_, "no column amax, found_inf or scale in the line of names " + quote(in_.slice(begin_, end_)) +
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
      if (!value && !fields[k].text.empty())
        in_.fail(fields[k].where, quote(fields[k].text) + " is no number for " + names[k]);
      *place = Cell{value, fields[k].where};
    }
    rows_.add(row, begin_);
  }

  Reader& in_;
  Collector rows_;
  std::size_t begin_ = 0, end_ = 0;
};

}  // namespace

ScaleLog parse_scale_log(const std::string& text, const std::string& name, const std::string& run) {
  const std::string shown = visible(name);
  Reader reader(text, shown);
  reader.skip_blanks();
  const char first = reader.peek();
  reader.at = 0;
  const bool is_json = first == '[' || first == '{';
  JsonLog json(reader, run);
  ScaleLog log = is_json ? json.read() : ScaleLog{CsvLog(reader).read(), ""};
  if (is_json ? json.ignored_run() : !run.empty())
    throw Error(shown + ": one log, without runs to choose from; leave out " + quote(":" + run));
  return log;
}

}  // namespace narrow
