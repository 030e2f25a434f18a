// The style sheet of a lesson's page: one column to read, code and outputs set off, light and dark and on paper.
#pragma once

#include <string>

namespace lesson {

std::string lesson_style();

}  // namespace lesson
