#include "narrow/lesson/file.hpp"

#include <doctest/doctest.h>

#include "narrow/base/error.hpp"
#include "support/contains.hpp"

using namespace lesson;

namespace {

// What parse_lesson says about a text it refuses.
std::string refusal(std::string_view text) {
  return test::error_of([&] { parse_lesson(text, "lesson.cpp"); });
}

constexpr const char* small =
    "// %% [markdown]\n// # Title\n//\n// Text.\n\n// %%\n\nint a;\nint b;\n\n// %% tags=[\"program\"]\nint main() {\n";

}  // namespace

TEST_CASE("notebook: a lesson is cut at its markers and lines keep their numbers") {
  const Lesson lesson = parse_lesson(small, "dir/01_small.cpp");
  CHECK(lesson.name == "01_small");
  CHECK(lesson.title == "Title");
  REQUIRE(lesson.cells.size() == 3);
  CHECK(lesson.cells[0].markdown);
  CHECK(lesson.cells[0].source == "# Title\n\nText.");
  CHECK(lesson.cells[1].source == "int a;\nint b;");
  CHECK(lesson.cells[1].first_line == 8);
  CHECK(lesson.cells[2].has_tag("program"));
}

TEST_CASE("notebook: a line finds the cell that it stands in") {
  const Lesson lesson = parse_lesson(small, "small.cpp");
  CHECK(lesson.cell_at(8) == &lesson.cells[1]);
  CHECK(lesson.cell_at(9) == &lesson.cells[1]);
  CHECK(lesson.cell_at(12) == &lesson.cells[2]);
  CHECK(lesson.cell_at(1) == nullptr);
}

TEST_CASE("notebook: line ends of other systems are no part of a line") {
  const Lesson lesson = parse_lesson("// %% [markdown]\r\n// # T\r\n// %%\r\nint a;\r\n", "a.cpp");
  CHECK(lesson.title == "T");
  CHECK(lesson.cells[1].source == "int a;");
}

TEST_CASE("notebook: what is no lesson is refused with its line") {
  CHECK(refusal("int main() {}\n").find("no cells") != std::string::npos);
  CHECK(refusal("// %%\nint a;\n").find("no title") != std::string::npos);
  CHECK(refusal("// %% [markdown]\n// # T\nint a;\n").find("lesson.cpp:3: a line of a Markdown cell") == 0);
  CHECK(refusal("// %% [markdwon]\n// # T\n").find("lesson.cpp:1: a cell opens with") == 0);
  CHECK(refusal("// %% [markdown] tags=[\"solutoin\"]\n// # T\n").find("unknown tag 'solutoin'") != std::string::npos);
  CHECK(refusal("// %% tags=solution\n").find("tags are written") != std::string::npos);
  CHECK(refusal("").find("no cells") != std::string::npos);
}

TEST_CASE("notebook: a file that is not there is refused by name") {
  CHECK_THROWS_WITH_AS(read_lesson("none.cpp"), "none.cpp: no such file", narrow::Error);
  CHECK_THROWS_AS(read_lesson("notes.txt"), narrow::Error);
  CHECK_THROWS_AS(read_text_file("/"), narrow::Error);
}

TEST_CASE("notebook: an output stands below the last code cell that is shown") {
  const lesson::Lesson lesson = lesson::parse_lesson(
      "// %% [markdown]\n// # A\n\n// %% tags=[\"program\"]\nint main() {\n\n// %%\nfirst();\n\n// %% [markdown]\n// "
      "text\n"
      "\n// %%\nsecond();\n\n// %% tags=[\"program\"]\n}\n",
      "a.cpp");
  const auto shown = [&](std::size_t line) { return lesson.shown_at(line)->source; };
  CHECK(shown(0) == "first();");
  CHECK(shown(5) == "first();");
  CHECK(shown(8) == "first();");
  CHECK(shown(11) == "first();");
  CHECK(shown(14) == "second();");
  CHECK(shown(17) == "second();");
  CHECK(lesson::parse_lesson("// %% [markdown]\n// # A\n", "a.cpp").shown_at(1) == nullptr);
}
