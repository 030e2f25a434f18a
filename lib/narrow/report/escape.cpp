#include "narrow/report/escape.hpp"

#include <cstdint>

#include "narrow/report/text_runs.hpp"

namespace narrow {
namespace {

// The bytes of the UTF-8 character at `at`; 0 when there is none (a byte that leads nowhere, too few that follow, a
// longer spelling than needed, a surrogate, beyond 10FFFF).
std::size_t character_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t lead = byte(at);
  const std::size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
  if (length <= 1 || at + length > text.size()) return length == 1 ? 1 : 0;
  std::uint32_t point = lead & (0xFFu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if (byte(at + i) >> 6 != 2) return 0;
    point = point << 6 | (byte(at + i) & 0x3F);
  }
  constexpr std::uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
  return point < least[length] || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000) ? 0 : length;
}

template <class Put>
void for_each_character(std::string_view text, const Put& put) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = character_length(text, i);
    const bool control =
        length == 1 && (static_cast<unsigned char>(text[i]) < ' ' || text[i] == 127) && text[i] != '\n';
    put(length == 0 || control ? std::string_view("?") : text.substr(i, length));
    i += length == 0 ? 1 : length;
  }
}

// "39.4 %" and "31.8 dB" stay on one line.
std::string with_joined_units(std::string text) {
  for (const std::string_view unit : {" %", " dB", " s", " GB", " bits"})
    for (std::size_t at = text.find(unit, 1); at != std::string::npos; at = text.find(unit, at + 1))
      if (text[at - 1] >= '0' && text[at - 1] <= '9') text.replace(at, 1, "&nbsp;");
  return text;
}

}  // namespace

std::string escaped_html(std::string_view text) {
  std::string out;
  for_each_character(text, [&](std::string_view c) {
    if (c == "&") out += "&amp;";
    else if (c == "<") out += "&lt;";
    else if (c == ">") out += "&gt;";
    else if (c == "\"") out += "&quot;";
    else out += c;
  });
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
  for_each_character(text, [&](std::string_view c) {
    if (c == "|") out += "\\|";
    else if (c == "\n") out += " ";
    else if (c == "<") out += "&lt;";
    else out += c;
  });
  return out;
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace narrow
