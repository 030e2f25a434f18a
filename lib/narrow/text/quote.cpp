#include "narrow/text/quote.hpp"

#include <algorithm>

namespace narrow {
namespace {

constexpr char digits[] = "0123456789ABCDEF";

std::string byte_text(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
}

// First and last of what no reader sees as itself. 200C and 200D join letters of real scripts and stay.
struct Range {
  char32_t first, last;
};
constexpr Range unseen[] = {{0x7F, 0x9F},      // DEL and C1: U+009B is what ESC [ is
                            {0x61C, 0x61C},    // Arabic letter mark
                            {0x200B, 0x200B},  // a space without width
                            {0x200E, 0x200F},  // marks of direction
                            {0x2028, 0x202E},  // line ends of their own; embedding and overriding a direction
                            {0x2060, 0x206F},  // joiners without width; isolating a direction
                            {0xFEFF, 0xFEFF},  // the byte order mark
                            {0xFFFE, 0xFFFF}};

bool is_seen(char32_t point) {
  return std::none_of(std::begin(unseen), std::end(unseen),
                      [&](const Range& r) { return point >= r.first && point <= r.last; });
}

}  // namespace

std::string quote(std::string_view word) {
  constexpr std::size_t longest = 60;
  std::string text = "'";
  for (const char c : word.substr(0, longest)) text += c >= 0x20 && c < 0x7F ? std::string(1, c) : byte_text(c);
  return text + (word.size() > longest ? "...'" : "'");
}

std::string visible(std::string_view text, std::string_view kept) {
  std::string out;
  while (!text.empty()) {
    const auto [point, length] = first_code_point(text);
    if (length == 0 || (point < 0x20 && kept.find(text[0]) == std::string_view::npos)) out += byte_text(text[0]);
    else if (is_seen(point)) out += text.substr(0, length);
    else out += {'\\', 'u', digits[point >> 12], digits[point >> 8 & 15], digits[point >> 4 & 15], digits[point & 15]};
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

// Lead byte, number of bytes, smallest code point:
//   0xxxxxxx 1 0     110xxxxx 2 80     1110xxxx 3 800     11110xxx 4 10000
CodePoint first_code_point(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[i])); };
  if (text.empty()) return {};
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC0 || lead >= 0xF8 || text.size() < length) return {};
  char32_t point = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    point = point << 6 | (byte(i) & 0x3F);
  }
  constexpr char32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = point >= 0xD800 && point < 0xE000;
  if (point < smallest[length] || point > 0x10FFFF || surrogate) return {};
  return {point, length};
}

}  // namespace narrow
