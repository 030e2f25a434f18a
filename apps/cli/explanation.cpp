#include "cli/explanation.hpp"

#include <algorithm>
#include <sstream>

#include "cli/terminal.hpp"

namespace app {

std::string wrapped(const std::string& text, std::size_t indent) {
  constexpr std::size_t width = 112;
  std::string out;
  std::size_t column = indent;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const bool first = out.empty();
    if (!first && column + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ') + word;
      column = indent + word.size();
    } else {
      out += (first ? "" : " ") + word;
      column += (first ? 0 : 1) + word.size();
    }
  }
  return out;
}

std::string Explanation::text(bool colour) const {
  std::size_t width = 0;
  for (const auto& [label, sentence] : lines_) width = std::max(width, label.size());
  std::string out;
  for (const auto& [label, sentence] : lines_)
    out += "  " + paint(label + std::string(width - label.size() + 2, ' '), Colour::dim, colour) +
           wrapped(sentence, width + 4) + "\n";
  return out;
}

}  // namespace app
