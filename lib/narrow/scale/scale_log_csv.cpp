#include <vector>

#include "narrow/scale/scale_log_rows.hpp"
#include "narrow/text/quote.hpp"

namespace narrow::logs {
namespace {

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

GradientLog read_csv_log(Reader& reader) { return CsvLog(reader).read(); }

}  // namespace narrow::logs
