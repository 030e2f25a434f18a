// A lesson and its outputs as a Jupyter notebook (nbformat 4.5).
#pragma once

#include <string>

#include "narrow/lesson/file.hpp"
#include "narrow/lesson/run.hpp"

namespace lesson {

std::string lesson_ipynb(const Lesson& lesson, const LessonRun& run);

}  // namespace lesson
