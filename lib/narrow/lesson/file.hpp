// A lesson as its cells: a C++ file in Jupytext's percent format, taken apart. Runs and renders nothing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lesson {

struct LessonCell {
  bool markdown = false;
  std::vector<std::string> tags;
  std::size_t first_line = 1, last_line = 1;  // of its source; the line of the marker is first_line - 1
  std::string source;                         // for Markdown without the comment signs; no empty lines at either end

  bool has_tag(std::string_view tag) const;
};

struct Lesson {
  std::string path, name;  // name: of the file, without folder and ending
  std::string title;       // the first heading of level one
  std::vector<LessonCell> cells;

  // The cell that a line stands in; nullptr for the lines above the first one.
  const LessonCell* cell_at(std::size_t line) const;

  // The cell that an output of a line is shown below: the last code cell up to there that is no program cell, else the
  // first one behind; nullptr when the lesson has none.
  const LessonCell* shown_at(std::size_t line) const;
};

// Known tags: "program" (compiled, not shown: where main opens and closes), "solution" (shown folded) and "folded"
// (code that a reader may skip: its outputs are shown, it is folded).
// Throws narrow::Error that names file and line: no cell, no title, a line of a Markdown cell that is no comment, an
// unknown kind of cell or tag.
Lesson parse_lesson(std::string_view text, const std::string& path);
Lesson read_lesson(const std::string& path);

std::string read_text_file(const std::string& path);  // at most 1 MiB; throws narrow::Error

}  // namespace lesson
