// How recordings are read: lines of "# key value", hashes and hexadecimal codes; every failure names file and line.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "narrow/base/error.hpp"
#include "narrow/text/quote.hpp"

namespace narrow::detail {

class LineReader {
 public:
  LineReader(std::string_view text, std::string file, int lines_before = 0)
      : rest_(text), file_(std::move(file)), number_(lines_before) {}

  bool at_end() const { return rest_.empty(); }
  std::string_view next() {
    if (rest_.empty()) fail("the file ends too early");
    const std::size_t end = rest_.find('\n');
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    ++number_;
    // It may go to a terminal, as it stands or in a message.
    if (std::any_of(line.begin(), line.end(), [](char c) { return c < ' ' || c > '~'; }))
      fail("this line holds what cannot be printed");
    return line;
  }
  // "# gpu NVIDIA H200" gives the rest of the line after the key.
  std::string value(std::string_view key) {
    const std::string_view line = next();
    const std::string start = "# " + std::string(key) + " ";
    if (line.substr(0, start.size()) != start || line.size() == start.size()) fail("'" + start + "...' belongs here");
    return std::string(line.substr(start.size()));
  }
  std::uint64_t number(std::string_view word, int base, const char* what) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
    if (error != std::errc() || end != word.data() + word.size() || word.empty()) fail(quote(word) + " is no " + what);
    return value;
  }
  // What a parser of ours says about a word, with the place in front.
  template <class Parse>
  auto parse(const Parse& parse_word, std::string_view word) const {
    try {
      return parse_word(std::string(word));
    } catch (const Error& error) {
      fail(error.what());
    }
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(file_ + ": line " + std::to_string(number_) + ": " + why);
  }

 private:
  std::string_view rest_;
  std::string file_;
  int number_ = 0;
};

inline std::string hex(std::uint64_t value, int digits) {
  std::string text(static_cast<std::size_t>(digits), '0');
  for (std::size_t i = text.size(); i-- > 0; value >>= 4) text[i] = "0123456789ABCDEF"[value & 15];
  return text;
}

}  // namespace narrow::detail
