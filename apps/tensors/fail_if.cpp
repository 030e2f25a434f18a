#include "tensors/fail_if.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "cli/number_text.hpp"
#include "narrow/base/error.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/text/quote.hpp"
#include "options/tensor_text.hpp"

namespace app {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

struct Reader {
  std::string_view text;
  std::size_t at = 0;

  void skip_blanks() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
  }
  bool at_end() { return skip_blanks(), at == text.size(); }
  std::string word() {
    skip_blanks();
    const std::size_t start = at;
    while (at < text.size() && is_letter(text[at])) ++at;
    return std::string(text.substr(start, at - start));
  }
  bool take(std::string_view token) {
    skip_blanks();
    if (text.substr(at, token.size()) != token) return false;
    at += token.size();
    return true;
  }
  [[noreturn]] void refuse(std::size_t position, const std::string& why) const {
    throw narrow::Error("--fail-if: at position " + std::to_string(position + 1) + " of " + narrow::quote(text) + ": " +
                        why);
  }
};

constexpr const char* shape = "; for example: underflow > 1% or fp16.overflow > 0";

std::string read_operator(Reader& reader) {
  for (const char* op : {">=", "<=", "==", "!=", ">", "<"})
    if (reader.take(op)) return op;
  reader.refuse(reader.at, std::string("a comparison is missing (> >= < <= == !=)") + shape);
}

double read_number(Reader& reader) {
  reader.skip_blanks();
  double number = 0;
  const char* begin = reader.text.data() + reader.at;
  const char* end = reader.text.data() + reader.text.size();
  const auto [next, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || !std::isfinite(number))
    reader.refuse(reader.at, std::string("a number is missing") + shape);
  reader.at += static_cast<std::size_t>(next - begin);
  return number;
}

bool compare(double x, const std::string& op, double y) {
  if (op == ">") return x > y;
  if (op == ">=") return x >= y;
  if (op == "<") return x < y;
  if (op == "<=") return x <= y;
  return op == "==" ? x == y : x != y;
}

// A qualifier as the rows spell it: fp16 for half.
std::string format_name(const Reader& reader, std::size_t position, const std::string& word,
                        const std::vector<std::string>& formats) {
  std::string name = word, list;
  if (const narrow::NamedFormat* row = narrow::find_row(word)) name = row->name;
  if (std::find(formats.begin(), formats.end(), name) != formats.end()) return name;
  for (const std::string& format : formats) list += (list.empty() ? "" : ", ") + format;
  reader.refuse(position, "no format " + narrow::quote(word) + " in --formats; there are: " + list);
}

}  // namespace

FailIf::FailIf(std::string_view text, const std::vector<std::string>& formats) : any_of_all_(1) {
  Reader reader{text};
  if (reader.at_end()) reader.refuse(0, std::string("no condition") + shape);
  while (true) {
    Condition condition{};
    reader.skip_blanks();
    std::size_t position = reader.at;
    std::string word = reader.word();
    if (!word.empty() && reader.take(".")) {
      condition.format = format_name(reader, position, word, formats);
      reader.skip_blanks();
      position = reader.at;
      word = reader.word();
    }
    condition.metric = find_metric(word);
    if (condition.metric == nullptr)
      reader.refuse(position, (word.empty() ? "a metric is missing" : "no metric " + narrow::quote(word)) +
                                  "; accepted: " + metric_names());
    condition.op = read_operator(reader);
    condition.number = read_number(reader);
    reader.skip_blanks();
    const std::size_t percent = reader.at;
    condition.share = reader.take("%");
    if (condition.share && !condition.metric->is_count)
      reader.refuse(percent, std::string("% belongs to counts; ") + condition.metric->name + " is a value");
    if (condition.share) condition.number /= 100;
    any_of_all_.back().push_back(condition);
    if (reader.at_end()) return;
    position = reader.at;
    word = reader.word();
    if (word == "or") any_of_all_.emplace_back();
    else if (word != "and") reader.refuse(position, std::string("'and', 'or' or the end is expected") + shape);
  }
}

std::string FailIf::holds(const Condition& c, const StatsRow& row) {
  double x = c.metric->value(row);
  // A share of nothing is nothing.
  if (c.share) x = row.input.count == 0 ? 0 : x / static_cast<double>(row.input.count);
  const bool undefined = std::isnan(x);  // nothing is known to be good about it
  if (!undefined && !compare(x, c.op, c.number)) return "";
  const std::string limit = c.share ? digits_text(100 * c.number, 6) + "%" : digits_text(c.number, 6);
  const std::string value = undefined ? "undefined, because " + why_undefined(row)
                            : c.share ? share_text(x)
                                      : digits_text(x, 15);
  return (c.format.empty() ? "" : c.format + ".") + c.metric->name + " is " + value + " (" + c.op + " " + limit + ")";
}

std::string FailIf::fails(const std::vector<StatsRow>& rows, const StatsRow& row) const {
  for (const auto& all : any_of_all_) {
    // Conditions on other formats alone are the fault of those.
    const auto concerns = [&](const Condition& c) { return c.format.empty() || c.format == row.format; };
    if (std::none_of(all.begin(), all.end(), concerns)) continue;
    std::string reasons;
    for (const Condition& c : all) {
      const auto named =
          std::find_if(rows.begin(), rows.end(), [&](const StatsRow& r) { return r.format == c.format; });
      const std::string reason = holds(c, c.format.empty() ? row : *named);
      if (reason.empty()) {
        reasons.clear();
        break;
      }
      reasons += (reasons.empty() ? "" : " and ") + reason;
    }
    if (!reasons.empty()) return reasons;
  }
  return "";
}

bool FailIf::check(std::vector<StatsRow>& rows) const {
  bool any = false;
  for (StatsRow& row : rows) {
    row.breaks = fails(rows, row);
    any = any || !row.breaks.empty();
  }
  return any;
}

}  // namespace app
