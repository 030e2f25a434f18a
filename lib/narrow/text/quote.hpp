// Text from outside as it may stand in a message or on a page: printable, and in the order in which it is read.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace narrow {

// 'word'; everything but printable ASCII as \xNN, and "..." after 60 characters of the word.
std::string quote(std::string_view word);

// Any text with everything that could steer a terminal, hide, or turn the order of reading made visible: bytes below
// 20 and bytes that are no UTF-8 as \xNN, code points (7F to 9F, marks of direction, invisible ones, those that XML
// forbids) as \uNNNN, which is what JSON reads as the same character. `kept`: bytes below 20 that stay.
std::string visible(std::string_view text, std::string_view kept = "");

// The code point at the front of a text and its length in bytes; length 0 when the bytes are no UTF-8: a byte that
// leads nowhere, too few that follow, a longer spelling than needed, a surrogate, beyond 10FFFF.
struct CodePoint {
  char32_t value = 0;
  std::size_t length = 0;
};
CodePoint first_code_point(std::string_view text) noexcept;

}  // namespace narrow
