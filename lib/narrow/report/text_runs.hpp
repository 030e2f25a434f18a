// Which characters of a text are raised or lowered: 2^-25 and log2 as people write them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace narrow::report {

// level: 1 raised, -1 lowered, 0 on the line.
struct TextRun {
  std::string text;
  int level = 0;
};

// "2^-25 of log2 x" is "2", raised "-25", " of log", lowered "2", " x". A caret counts between a digit, letter or
// bracket and a number or single letter; log2 and log10 count as words.
std::vector<TextRun> text_runs(std::string_view text);

}  // namespace narrow::report
