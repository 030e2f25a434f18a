#include "narrow/report/escape.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "narrow/report/text_runs.hpp"

namespace narrow::report {
namespace {

// "39.4 %" and "31.8 dB" stay on one line.
std::string with_joined_units(std::string text) {
  for (const std::string_view unit : {" %", " dB", " s", " GB", " bits"})
    for (std::size_t at = text.find(unit, 1); at != std::string::npos; at = text.find(unit, at + 1))
      if (text[at - 1] >= '0' && text[at - 1] <= '9') text.replace(at, 1, "&nbsp;");
  return text;
}

// Whether a spreadsheet takes a cell of this text for a formula to compute: = + - @ in front (the wide forms of East
// Asian scripts too, and blanks that it drops), and no number. Numbers keep their sign.
bool is_formula(std::string_view text) {
  const auto starts = [&](std::string_view sign) { return text.starts_with(sign); };
  constexpr std::string_view signs[] = {"=", "+", "-", "@", "\t", "\r", "\n", "\uFF1D", "\uFF0B", "\uFF0D", "\uFF20"};
  if (std::none_of(std::begin(signs), std::end(signs), starts)) return false;
  const std::string_view number = text.substr(starts("+") ? 1 : 0);
  double value = 0;
  const auto end = std::from_chars(number.data(), number.data() + number.size(), value);
  return end.ec == std::errc::invalid_argument || end.ptr != text.data() + text.size();
}

}  // namespace

std::string escaped_html(std::string_view text) {
  std::string out;
  for (const char c : visible(text, "\n\t")) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

std::string html_with_powers(std::string_view text) {
  std::string out;
  for (const TextRun& run : text_runs(text)) {
    const std::string part = with_joined_units(escaped_html(run.text));
    out += run.level > 0 ? "<sup>" + part + "</sup>" : run.level < 0 ? "<sub>" + part + "</sub>" : part;
  }
  return out;
}

std::string escaped_markdown(std::string_view text) {
  std::string out;
  for (const char c : visible(text, "\n")) {
    if (c == '|' || c == '\\') out += {'\\', c};
    else if (c == '\n') out += " ";
    else if (c == '<') out += "&lt;";
    else if (c == '(' && out.ends_with(']')) out += "\\(";  // [words](address) is a link to anywhere
    else out += c;
  }
  return out;
}

std::string csv_field(std::string_view text) {
  const std::string inert = (is_formula(text) ? "'" : "") + std::string(text);
  if (text.find_first_of(",;\t\"\r\n") == std::string_view::npos) return inert;
  std::string out = "\"";
  for (const char c : inert) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string csv_comment(std::string_view text) {
  std::string line = "#";
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == 0 || ((line.back() == ',' || line.back() == ';') && (text[i] == '"' || is_formula(text.substr(i)))))
      line += ' ';
    line += text[i] == '\n' || text[i] == '\r' || text[i] == '\t' ? ' ' : text[i];
  }
  return line + "\n";
}

}  // namespace narrow::report
