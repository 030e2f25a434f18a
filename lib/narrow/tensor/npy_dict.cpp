#include "narrow/tensor/npy_dict.hpp"

#include <algorithm>
#include <utility>

#include "narrow/base/error.hpp"
#include "narrow/tensor/limits.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace {

class DictParser {
 public:
  DictParser(std::string_view text, std::uint64_t first_byte) : text_(text), first_byte_(first_byte) {}

  NpyDict parse() {
    need('{', "a dict { }");
    bool has_descr = false, has_order = false, has_shape = false;
    const auto once = [&](bool& seen, std::string_view key) {
      if (std::exchange(seen, true)) fail("the key " + quote(key) + " comes twice");
    };
    while (!take('}')) {
      const std::string key = quoted("a key");
      need(':', "':' after a key");
      if (key == "descr") once(has_descr, key), dict_.descr = descr();
      else if (key == "fortran_order") once(has_order, key), dict_.fortran_order = truth();
      else if (key == "shape") once(has_shape, key), dict_.shape = tuple();
      else fail("unknown key " + quote(key) + "; descr, fortran_order and shape are right");
      if (!take(',') && !next_is('}')) fail("',' or '}' is missing");
    }
    for (const auto& [seen, key] : {std::pair(has_descr, "descr"), {has_order, "fortran_order"}, {has_shape, "shape"}})
      if (!seen) fail(std::string("no key '") + key + "'");
    skip_blanks();
    if (at_ != text_.size()) fail("something after the dict; only spaces are right");
    return std::move(dict_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error("header at byte " + std::to_string(first_byte_ + at_) + ": " + what);
  }
  void skip_blanks() { at_ = std::min(text_.find_first_not_of(" \t\n\r", at_), text_.size()); }
  bool next_is(char c) {
    skip_blanks();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }
  void need(char c, const std::string& what) {
    if (!take(c)) fail(what + " is missing");
  }
  bool take_word(std::string_view word) {
    skip_blanks();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  // No escapes: numpy writes none in the words that are accepted.
  std::string quoted(const std::string& what) {
    const char mark = next_is('"') ? '"' : '\'';
    need(mark, what + " in quotes");
    const std::size_t end = text_.find(mark, at_);
    if (end == std::string_view::npos) fail("quotes that do not end");
    const std::string word(text_.substr(at_, end - at_));
    at_ = end + 1;
    return word;
  }

  std::string descr() {
    if (next_is('[') || next_is('{') || next_is('('))
      fail("a structured type (a list for descr); only plain arrays are read: save each field by itself");
    return quoted("descr");
  }

  bool truth() {
    if (take_word("True")) return true;
    if (take_word("False")) return false;
    fail("fortran_order must be True or False");
  }

  std::vector<std::uint64_t> tuple() {
    std::vector<std::uint64_t> shape;
    need('(', "a tuple ( ) for shape");
    while (!take(')')) {
      if (shape.size() == most_dimensions) fail("more than " + std::to_string(most_dimensions) + " dimensions");
      shape.push_back(dimension());
      if (take(',')) continue;
      if (!next_is(')')) fail("',' or ')' is missing in shape");
      if (shape.size() == 1)
        fail("(" + std::to_string(shape[0]) + ") is no tuple; (" + std::to_string(shape[0]) + ",) is right");
    }
    return shape;
  }

  std::uint64_t dimension() {
    skip_blanks();
    const std::size_t begin = at_;
    std::uint64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      const auto digit = static_cast<std::uint64_t>(text_[at_] - '0');
      if (value > (largest_number - digit) / 10) fail("a dimension of 2^63 or more");
      value = value * 10 + digit;
    }
    if (at_ == begin) fail("shape must hold integers from 0 to 2^63 - 1");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // a long integer of Python 2
    return value;
  }

  std::string_view text_;
  std::uint64_t first_byte_;
  std::size_t at_ = 0;
  NpyDict dict_;
};

}  // namespace

NpyDict parse_npy_dict(std::string_view text, std::uint64_t first_byte) { return DictParser(text, first_byte).parse(); }

}  // namespace narrow
