// Rows of cells as aligned text, or as a Markdown table.
#pragma once

#include <string>
#include <vector>

namespace app {

// What is seen, and what is written where colours are wanted.
struct Cell {
  std::string text;
  std::string painted;

  Cell(std::string plain) : text(std::move(plain)), painted(text) {}
  Cell(const char* plain) : text(plain), painted(plain) {}
  Cell(std::string plain, std::string with_colour) : text(std::move(plain)), painted(std::move(with_colour)) {}
};

enum class Align { left, right };

struct Table {
  std::vector<std::string> header;
  std::vector<Align> align;
  std::vector<std::vector<Cell>> rows;

  std::string to_text(bool colour, std::size_t indent = 0) const;
  std::string to_markdown() const;
};

}  // namespace app
