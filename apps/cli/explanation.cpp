#include "cli/explanation.hpp"

#include <algorithm>

#include "products/model_text.hpp"
#include "cli/terminal.hpp"

namespace app {

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
