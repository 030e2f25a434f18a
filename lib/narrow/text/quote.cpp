#include "narrow/text/quote.hpp"

namespace narrow {

std::string quote(std::string_view word) {
  constexpr std::size_t longest = 60;
  constexpr char digits[] = "0123456789ABCDEF";
  std::string text = "'";
  for (const char c : word.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F) text += c;
    else text += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
  }
  return text + (word.size() > longest ? "...'" : "'");
}

}  // namespace narrow
