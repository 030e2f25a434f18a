// Rows of cells as aligned text, or as a Markdown table: how every table looks to people.
#pragma once

#include <string>
#include <vector>

namespace narrow::report {

// What is seen, and what is written where colours are wanted.
struct TextCell {
  std::string text;
  std::string painted;

  TextCell(std::string plain) : text(std::move(plain)), painted(text) {}
  TextCell(const char* plain) : text(plain), painted(plain) {}
  TextCell(std::string plain, std::string with_colour) : text(std::move(plain)), painted(std::move(with_colour)) {}
};

enum class Align { left, right };

struct TextTable {
  std::vector<std::string> header;
  std::vector<Align> align;
  std::vector<std::vector<TextCell>> rows;

  std::string to_text(bool colour, std::size_t indent = 0) const;
  std::string to_markdown() const;
};

}  // namespace narrow::report
