#include "narrow/scale/scale_log.hpp"

#include <charconv>

#include "narrow/scale/scale_log_rows.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

std::optional<double> logs::number_of(std::string_view word) {
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

ScaleLog parse_scale_log(const std::string& text, const std::string& name, const std::string& run) {
  const std::string shown = visible(name);
  logs::Reader reader(text, shown);
  reader.skip_blanks();
  const char first = reader.peek();
  reader.at = 0;
  const bool is_json = first == '[' || first == '{';
  bool ignored_run = !run.empty();
  ScaleLog log = is_json ? logs::read_json_log(reader, run, ignored_run) : ScaleLog{logs::read_csv_log(reader), ""};
  if (ignored_run)
    throw Error(shown + ": one log, without runs to choose from; leave out " + quote(":" + run));
  return log;
}

}  // namespace narrow
