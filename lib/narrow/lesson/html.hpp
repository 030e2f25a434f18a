// A lesson and its outputs as one page: style and pictures inside, no script, nothing fetched.
#pragma once

#include <optional>
#include <string>

#include "narrow/lesson/file.hpp"
#include "narrow/lesson/run.hpp"

namespace lesson {

// Where a lesson stands among those of its folder.
struct LessonPlace {
  struct Neighbour {
    std::string page, title;  // NAME.html
  };
  std::size_t number = 0, count = 0;  // 0: it is not one of a course
  std::optional<Neighbour> before, after;
};

// The lessons NN_name.cpp beside this one; those that cannot be read are left out.
LessonPlace place_of(const Lesson& lesson);

// Throws narrow::Error with file and line where a cell cannot be rendered.
std::string lesson_html(const Lesson& lesson, const LessonRun& run, const LessonPlace& place);

// A Markdown file as a page of the same style: the index of the lessons.
std::string markdown_page(const std::string& text, const std::string& path);

}  // namespace lesson
