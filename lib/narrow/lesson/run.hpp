// Compiles a lesson where no program is given, runs it, and collects what it put on its page.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "narrow/lesson/file.hpp"

namespace lesson {

// One output of a lesson, as lesson.cpp records it; which members are set depends on the kind.
struct LessonOutput {
  enum class Kind { text, say, table, picture, bits, expect };
  Kind kind = Kind::text;
  std::size_t line = 0;
  std::string text;             // text, say, expect; for a table as aligned text
  std::string title, subtitle;  // picture; table: title and note
  std::string drawn, svg, png;  // picture: for a page with the palette, as a file, and in base64 (may be empty)
  std::vector<std::pair<std::string, std::string>> columns;  // table: name and unit
  std::vector<bool> is_text;                                 // table: by column
  std::vector<std::vector<std::string>> rows;                // table
  std::string sign, exponent, mantissa, code, value;         // bits
};

// Not empty: the lesson has no page, and why.
struct LessonFault {
  std::size_t line = 0;  // 0: unknown
  std::string what;      // one line: "does not compile"
  std::string message;   // of the compiler or the program
};

struct LessonRun {
  std::vector<LessonOutput> outputs;  // in the order in which they came
  LessonFault fault;
};

struct RunRequest {
  std::string program;                     // already built; empty: the lesson is compiled
  std::string compiler;                    // empty: the one that narrow was built with
  std::vector<std::string> flags;          // after the usual ones
  int run_seconds = 300;                   // a program that takes longer is ended: a fault of the lesson
  std::function<bool()> should_stop = {};  // becomes true: compiler and program are ended, a fault as well
};

// Throws narrow::Error when the request cannot be met: no such program, no compiler, nothing to compile against.
LessonRun run_lesson(const Lesson& lesson, const RunRequest& request);

}  // namespace lesson
