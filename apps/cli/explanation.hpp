// Reasoning for people: labelled sentences under each other, wrapped to be read.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace app {

// Words over several lines of at most 112 columns; lines after the first begin with `indent` blanks.
std::string wrapped(const std::string& text, std::size_t indent);

class Explanation {
 public:
  void say(std::string label, std::string sentence) { lines_.emplace_back(std::move(label), std::move(sentence)); }
  std::string text(bool colour) const;  // every line indented by two blanks, labels in one column

 private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

}  // namespace app
