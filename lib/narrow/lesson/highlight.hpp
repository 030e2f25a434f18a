// C++ as HTML in colours: comments, strings, numbers, words. Knows tokens, not the grammar.
#pragma once

#include <string>
#include <string_view>

namespace lesson {

std::string highlighted_cpp(std::string_view source);

}  // namespace lesson
