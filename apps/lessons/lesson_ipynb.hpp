// A lesson and its outputs as a Jupyter notebook (nbformat 4.5).
#pragma once

#include <string>

#include "lessons/lesson_file.hpp"
#include "lessons/lesson_run.hpp"

namespace app {

std::string lesson_ipynb(const Lesson& lesson, const LessonRun& run);

}  // namespace app
