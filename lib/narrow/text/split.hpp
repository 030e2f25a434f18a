// A text cut at every one of some characters.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

namespace narrow {

// The parts between them, empty ones too. A part views the text, unless it is a std::string.
template <class Part = std::string_view>
std::vector<Part> parts_of(std::string_view text, std::string_view at) {
  std::vector<Part> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(at, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// The same without the empty ones.
template <class Part = std::string_view>
std::vector<Part> words_of(std::string_view text, std::string_view at = " ") {
  std::vector<Part> words = parts_of<Part>(text, at);
  std::erase_if(words, [](const Part& word) { return word.empty(); });
  return words;
}

}  // namespace narrow
