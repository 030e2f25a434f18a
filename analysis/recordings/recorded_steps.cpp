#include "analysis/recordings/recorded_steps.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "analysis/recordings/inputs.hpp"
#include "narrow/base/error.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/split.hpp"

namespace analysis {
namespace {

using narrow::Error;

// One line under the names of its columns.
struct TsvRow {
  const std::vector<std::string>* names;
  std::vector<std::string> words;
  std::string where;

  bool has(std::string_view name) const { return std::find(names->begin(), names->end(), name) != names->end(); }
  const std::string& text(std::string_view name) const {
    const auto found = std::find(names->begin(), names->end(), name);
    if (found == names->end()) throw Error(where + ": there is no column " + std::string(name));
    return words[static_cast<std::size_t>(found - names->begin())];
  }
  double positive(std::string_view name) const {
    const std::string& word = text(name);
    double x = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), x);
    if (error == std::errc{} && end == word.data() + word.size() && std::isfinite(x) && x > 0) return x;
    throw Error(where + ": " + std::string(name) + " is " + narrow::quote(word) + "; expected a number above 0");
  }
};

// Comment lines are "# key: value", the first other line names the columns.
template <class Row, class Read>
RecordedRows<Row> load(const std::string& name, std::string& missing, Read read) {
  RecordedRows<Row> all;
  std::optional<std::string> path;
  try {
    path = find_data(name);
  } catch (const Error& error) {
    missing = error.what();
  }
  if (!path) return all;
  std::istringstream file(narrow::read_text(*path));
  std::vector<std::string> names;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    const std::string where = *path + ":" + std::to_string(++number);
    if (constexpr std::string_view gpu = "# gpu: "; line.starts_with(gpu)) all.gpu = line.substr(gpu.size());
    if (line.empty() || line[0] == '#') continue;
    if (names.empty()) {
      names = narrow::parts_of<std::string>(line, "\t");
      continue;
    }
    const TsvRow row{&names, narrow::parts_of<std::string>(line, "\t"), where};
    if (row.words.size() != names.size())
      throw Error(where + ": " + std::to_string(row.words.size()) + " fields, the first line has " +
                  std::to_string(names.size()));
    all.rows.push_back(read(row));
  }
  if (all.rows.empty()) throw Error(*path + ": no rows");
  return all;
}

}  // namespace

RecordedRows<RecordedStep> load_steps(std::string& missing) {
  return load<RecordedStep>("end-to-end/steps.tsv", missing, [](const TsvRow& row) {
    const auto size = [&](std::string_view name) { return row.has(name) ? row.positive(name) : 0; };
    return RecordedStep{row.text("model"),
                        row.text("recipe"),
                        row.text("recompute"),
                        row.has("mode") ? row.text("mode") : "eager",
                        row.positive("parameters"),
                        row.positive("batch"),
                        row.positive("context"),
                        row.positive("step_ms"),
                        row.positive("tokens_per_second"),
                        row.positive("max_memory_bytes"),
                        size("layers"),
                        size("width"),
                        size("heads"),
                        size("vocabulary")};
  });
}

RecordedRows<RecordedOperation> load_operations(std::string& missing) {
  return load<RecordedOperation>("end-to-end/elementwise.tsv", missing, [](const TsvRow& row) {
    return RecordedOperation{row.text("operation"), row.text("format"), row.positive("microseconds"),
                             row.positive("gigabytes_per_second")};
  });
}

RecordedRows<RecordedSwitch> load_switches(std::string& missing) {
  return load<RecordedSwitch>("end-to-end/switches.tsv", missing, [](const TsvRow& row) {
    return RecordedSwitch{row.text("operation"), row.text("setting"), row.text("used")};
  });
}

const RecordedStep* find_step(const std::vector<RecordedStep>& steps, const RecordedStep& like,
                              std::string_view recipe) {
  for (const RecordedStep& s : steps)
    if (s.model == like.model && s.recompute == like.recompute && s.mode == like.mode && s.batch == like.batch &&
        s.context == like.context && s.recipe == recipe)
      return &s;
  return nullptr;
}

}  // namespace analysis
