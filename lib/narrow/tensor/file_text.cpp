#include "narrow/tensor/file_text.hpp"

#include <algorithm>

#include "narrow/tensor/limits.hpp"

namespace narrow {

std::string quote_path(std::string_view path) {
  constexpr char digits[] = "0123456789ABCDEF";
  std::string text = "'";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7F) text += c;
    else text += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
  }
  return text + "'";
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size() && i <= most_dimensions; ++i)
    text += (i == 0 ? "" : ",") + (i < most_dimensions ? std::to_string(shape[i]) : "...");
  return text + "]";
}

namespace {

// Length of the code point at the front of text; 0 when it is none. Lead byte, number of bytes, smallest code point:
//   0xxxxxxx 1 0     110xxxxx 2 80     1110xxxx 3 800     11110xxx 4 10000
std::size_t code_point_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC0 || lead >= 0xF8 || text.size() < length) return 0;
  std::uint32_t point = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    point = point << 6 | (byte(i) & 0x3Fu);
  }
  constexpr std::uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = point >= 0xD800 && point < 0xE000;
  return point < smallest[length] || point > 0x10FFFF || surrogate ? 0 : length;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = code_point_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

bool looks_like_text(std::string_view beginning) {
  const auto printable = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 ? byte != 0x7F : c == '\n' || c == '\r' || c == '\t' || c == '\f';
  };
  if (!std::all_of(beginning.begin(), beginning.end(), printable)) return false;
  // A code point may be cut at the end of the piece.
  for (std::size_t cut = 0; cut < 4 && cut <= beginning.size(); ++cut)
    if (is_utf8(beginning.substr(0, beginning.size() - cut))) return true;
  return false;
}

}  // namespace narrow
