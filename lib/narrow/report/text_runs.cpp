#include "narrow/report/text_runs.hpp"

namespace narrow::report {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The length of an exponent that starts at `at`: -25, 10, -20.6, k; 0 when there is none.
std::size_t exponent_length(std::string_view text, std::size_t at) {
  std::size_t end = at;
  if (end < text.size() && text[end] == '-') ++end;
  const std::size_t digits = end;
  while (end < text.size() && is_digit(text[end])) ++end;
  if (end > digits && end + 1 < text.size() && text[end] == '.' && is_digit(text[end + 1])) {
    ++end;  // 2^-20.6; a full stop is followed by no digit
    while (end < text.size() && is_digit(text[end])) ++end;
  }
  if (end > digits) return end - at;
  const bool single = digits < text.size() && is_letter(text[digits]) &&
                      (digits + 1 == text.size() || !(is_letter(text[digits + 1]) || is_digit(text[digits + 1])));
  return single ? digits + 1 - at : 0;
}

// The length of the base of a logarithm that starts at `at`, where "log" stands before.
std::size_t base_length(std::string_view text, std::size_t at) {
  if (at < 3 || text.substr(at - 3, 3) != "log" || (at > 3 && is_letter(text[at - 4]))) return 0;
  for (const std::string_view base : {"10", "2"})
    if (text.substr(at, base.size()) == base && (at + base.size() == text.size() || !is_digit(text[at + base.size()])))
      return base.size();
  return 0;
}

}  // namespace

std::vector<TextRun> text_runs(std::string_view text) {
  std::vector<TextRun> runs;
  std::string plain;
  const auto flush = [&] {
    if (!plain.empty()) runs.push_back({std::move(plain), 0});
    plain.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char before = i > 0 ? text[i - 1] : ' ';
    if (text[i] == '^' && (is_digit(before) || is_letter(before) || before == ')')) {
      if (const std::size_t length = exponent_length(text, i + 1)) {
        flush();
        runs.push_back({std::string(text.substr(i + 1, length)), 1});
        i += length;
        continue;
      }
    }
    if (const std::size_t length = base_length(text, i)) {
      flush();
      runs.push_back({std::string(text.substr(i, length)), -1});
      i += length - 1;
      continue;
    }
    plain += text[i];
  }
  flush();
  return runs;
}

}  // namespace narrow::report
