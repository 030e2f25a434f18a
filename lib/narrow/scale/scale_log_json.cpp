#include <set>
#include <vector>

#include "narrow/scale/scale_log_rows.hpp"
#include "narrow/text/quote.hpp"

namespace narrow::logs {
namespace {

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

  // Calls each(key, where the key stands) at every value of the object that begins here; ends behind it.
  template <class Each>
  void for_each_key(const Each& each) {
    expect('{', "an object");
    in_.skip_blanks();
    if (in_.peek() != '}') {
      do {
        in_.skip_blanks();
        const std::size_t key_at = in_.at;
        const std::string key = read_string();
        expect(':', "':'");
        in_.skip_blanks();
        each(key, key_at);
      } while (separator('}'));
    }
    ++in_.at;
  }

  Keys read_keys() {
    Keys keys;
    std::set<std::string> seen;
    for_each_key([&](const std::string& key, std::size_t key_at) {
      if (!seen.insert(key).second) in_.fail(key_at, "a second " + quote(key) + " in one object");
      keys.emplace_back(key, in_.at);
      read_value(1);
    });
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
    for_each_key([&](const std::string& key, std::size_t key_at) {
      std::optional<Cell>* place = row.find(key);
      if (place != nullptr && *place) in_.fail(key_at, "a second " + quote(key) + " in one row");
      set(place, key, in_.at);
    });
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
    if (c == '[') return for_each_element([&] { read_value(depth + 1); }), std::nullopt;
    if (c == '{') return for_each_key([&](const std::string&, std::size_t) { read_value(depth + 1); }), std::nullopt;
    const std::size_t begin = in_.at;
    in_.at = in_.find_first_of(",]} \t\r\n");
    const std::string_view word = in_.slice(begin, in_.at);
    if (word == "null") return {};
    const std::optional<double> value = number_of(word);
    if (!value) in_.fail(begin, word.empty() ? "expected a value" : quote(word) + " is no JSON value");
    return value;
  }

  Reader& in_;
  Collector rows_;
  const std::string& run_;
  bool has_runs_ = false;
};

}  // namespace

ScaleLog read_json_log(Reader& reader, const std::string& run, bool& ignored_run) {
  JsonLog json(reader, run);
  ScaleLog log = json.read();
  ignored_run = json.ignored_run();
  return log;
}

}  // namespace narrow::logs
