// How much room a text takes before anybody has drawn it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "narrow/plot/scene.hpp"
#include "narrow/report/text_runs.hpp"

namespace narrow::plot {

inline constexpr double small_script = 0.72;  // size of raised and lowered characters

// An upper bound in practice: the advance widths are those of DejaVu Sans, the widest of the usual screen fonts.
double text_width(std::string_view text, double size, bool bold = false);

// The box of a text that is not turned, or turned about its anchor.
Box text_box(const TextShape& text);

// Lines of at most `width`, broken at spaces; a word longer than that stays whole.
std::vector<std::string> wrapped(std::string_view text, double size, double width, bool bold = false);

}  // namespace narrow::plot
